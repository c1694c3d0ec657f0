#pragma once

#include <cstdint>

namespace barge {

/// The output function of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that
/// passes statistical tests on consecutive inputs.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A number in [0, 1), a multiple of 2^-53, that depends on its key only: no state, so that the
/// same token is drawn in whatever order and company.
constexpr double uniform(std::uint64_t seed, std::uint64_t choice, std::uint64_t position) {
  const std::uint64_t bits = mix64(mix64(mix64(seed) ^ choice) ^ position);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace barge
