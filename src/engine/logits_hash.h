#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "engine/random.h"

namespace barge {

/// One hash after another, in order.
constexpr std::uint64_t combine_hash(std::uint64_t a, std::uint64_t b) {
  return mix64(std::rotl(a, 23) ^ b);
}

/// A hash over the bits of the numbers, in order: for telling whether two runs computed the very
/// same. Eight lanes, so that it runs at the speed of memory.
inline std::uint64_t hash_bits(std::span<const float> numbers) {
  constexpr std::size_t kLanes = 8;
  constexpr std::uint64_t kPrime = 0x9fb21c651e98df25u;
  std::array<std::uint64_t, kLanes> lanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix64(lane);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint64_t& lane = lanes[i % kLanes];
    lane = (std::rotl(lane, 29) ^ std::bit_cast<std::uint32_t>(numbers[i])) * kPrime;
  }
  std::uint64_t hash = numbers.size();
  for (const std::uint64_t lane : lanes) hash = combine_hash(hash, lane);
  return hash;
}

}  // namespace barge
