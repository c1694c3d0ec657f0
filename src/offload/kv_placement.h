#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tier.h"

namespace barge {

/// Chooses the homes of sequences' layers so that the bytes of all live (sequence, layer) meet the
/// wanted shares to within the largest of them, evenly over the layers. Deterministic.
class KvPlacement {
 public:
  /// Throws ConfigError unless the shares are in [0, 1] and sum to 1. With `device_layers`, in so
  /// many layers, evenly spread, all sequences are at home on the device, and in no others.
  KvPlacement(const PerTier<double>& share, int layers, std::optional<int> device_layers = {});

  /// Whether all sequences' homes in this layer are on the device.
  bool device_layer(std::size_t layer) const { return device_layers_[layer]; }

  /// Homes for one more sequence that is `weight` positions long, [layers].
  std::vector<Tier> choose(std::int64_t weight) const;
  void add(const std::vector<Tier>& homes, std::int64_t weight);
  void remove(const std::vector<Tier>& homes, std::int64_t weight) { add(homes, -weight); }

 private:
  PerTier<double> share_;  // in the layers that are chosen for: all but device_layers_
  const std::size_t layers_;
  std::vector<bool> device_layers_;              // [layers]
  PerTier<std::int64_t> placed_;                 // over all layers that are chosen for
  PerTier<std::vector<std::int64_t>> by_layer_;  // [layers]
};

}  // namespace barge
