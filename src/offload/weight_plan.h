#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/tier.h"
#include "offload/pack.h"

namespace barge {

/// Consecutive panels of one tensor: consecutive in their file too.
struct PanelRange {
  int tensor = 0;
  std::size_t first = 0, count = 0;
};

/// Which panel of a pack goes where, and in which runs a sweep visits them. Arithmetic only.
struct WeightPlan {
  struct Run {
    PanelRange panels;
    Tier home = Tier::kDisk;
    bool streamed = false;  // through the ring; else used where it is
    std::size_t bytes = 0;  // with padding
  };

  std::vector<std::vector<Tier>> homes;  // [tensors][panels]; on a unified device no kDevice
  std::vector<std::vector<std::size_t>> offsets;  // of panels in the memory of their tier
  PerTier<std::size_t> memory_bytes;              // to allocate for homes in memory, vectors too
  PerTier<std::size_t> at_home;                   // of matrices and tables
  std::vector<Run> runs;                          // of one sweep, in order
  std::vector<PanelRange> loads;                  // what is read at the start
};

/// `homes` as WeightStore takes them. Streamed runs and loads grow up to `run_bytes` (one panel may
/// be more). Throws ConfigError if visits or homes don't fit the pack.
WeightPlan plan_weights(const Pack& pack, std::span<const int> visits,
                        const std::vector<std::vector<Tier>>& homes, bool unified,
                        std::size_t run_bytes);

/// The bytes of a range with padding: what one read of it takes.
std::size_t stored_bytes(const Pack& pack, const PanelRange& range);

}  // namespace barge
