#pragma once

#include <compare>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace barge {

/// 128 bits stand for a text: two of 10^9 texts share one with probability 10^-21.
struct Hash128 {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const Hash128&) const = default;

  /// 32 hexadecimal digits.
  std::string hex() const {
    char text[33];
    std::snprintf(text, sizeof(text), "%016llx%016llx", static_cast<unsigned long long>(high),
                  static_cast<unsigned long long>(low));
    return text;
  }
};

/// FNV-1a with 128 bits, about 0.5 GB/s: tells inputs apart, keeps no secret. Part of what is on
/// disk (a job's record of its input), so it never changes.
class Hasher {
 public:
  void update(std::string_view bytes) {
    for (const char c : bytes) state_ = (state_ ^ static_cast<unsigned char>(c)) * kPrime;
  }
  Hash128 value() const {
    return {static_cast<std::uint64_t>(state_ >> 64), static_cast<std::uint64_t>(state_)};
  }

 private:
  using Word = unsigned __int128;
  static constexpr Word kPrime = (Word{0x0000000001000000u} << 64) | 0x000000000000013Bu;
  Word state_ = (Word{0x6c62272e07bb0142u} << 64) | 0x62b821756295c58du;
};

inline Hash128 hash128(std::string_view bytes) {
  Hasher hasher;
  hasher.update(bytes);
  return hasher.value();
}

/// SplitMix64's finaliser: every bit of `x` reaches every bit of the result.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// The seed of a request that brings none: mix64(mix64(--seed) ^ high ^ low), where high and low
/// are the halves of its custom_id's FNV-1a hash. Part of what a job's answers are: never changes.
inline std::uint64_t derived_seed(std::uint64_t run_seed, std::string_view custom_id) {
  const Hash128 hash = hash128(custom_id);
  return mix64(mix64(run_seed) ^ hash.high ^ hash.low);
}

}  // namespace barge
