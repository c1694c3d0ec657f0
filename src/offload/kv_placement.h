#pragma once

#include <cstdint>
#include <vector>

#include "core/tier.h"

namespace barge {

/// Chooses the homes of sequences' layers so that the bytes of all live (sequence, layer) meet the
/// wanted shares to within the largest of them, evenly over the layers. Deterministic.
class KvPlacement {
 public:
  /// Throws ConfigError unless the shares are in [0, 1] and sum to 1.
  KvPlacement(const PerTier<double>& share, int layers);

  /// Homes for one more sequence that is `weight` positions long, [layers].
  std::vector<Tier> choose(std::int64_t weight) const;
  void add(const std::vector<Tier>& homes, std::int64_t weight);
  void remove(const std::vector<Tier>& homes, std::int64_t weight) { add(homes, -weight); }

 private:
  const PerTier<double> share_;
  const std::size_t layers_;
  PerTier<std::int64_t> placed_;                 // over all layers
  PerTier<std::vector<std::int64_t>> by_layer_;  // [layers]
};

}  // namespace barge
