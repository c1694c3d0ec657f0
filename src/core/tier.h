#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace barge {

/// Where bytes live: GPU memory, CPU memory, SSD. On a unified device (the CPU) `kDevice` is not
/// used as a home: what the plan would put there is in `kHost`.
enum class Tier : std::uint8_t { kDevice, kHost, kDisk };

inline constexpr std::array kTiers{Tier::kDevice, Tier::kHost, Tier::kDisk};
constexpr std::string_view name_of(Tier tier) {
  return tier == Tier::kDevice ? "device" : tier == Tier::kHost ? "host" : "disk";
}

/// One value for each tier.
template <typename T>
struct PerTier {
  T device{}, host{}, disk{};

  T& operator[](Tier t) { return t == Tier::kDevice ? device : t == Tier::kHost ? host : disk; }
  const T& operator[](Tier t) const {
    return t == Tier::kDevice ? device : t == Tier::kHost ? host : disk;
  }
};

}  // namespace barge
