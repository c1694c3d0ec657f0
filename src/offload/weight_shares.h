#pragma once

#include <cstddef>
#include <vector>

#include "core/tier.h"
#include "offload/pack.h"

namespace barge {

/// How the bytes of a weight store's ring and staging are shared out.
struct WeightShares {
  std::size_t ring = 0;     // device memory that runs pass through; 0 where nothing does
  std::size_t staging = 0;  // pinned memory that disk reads pass through; discrete devices only
  std::size_t lookup = 0;   // for look-ups of rows on disk: beside the ring, or beside staging
  std::size_t run = 0;      // the most bytes of one run of several panels
};

/// `homes` as WeightStore takes them. Throws ConfigError where ring or staging are too small.
WeightShares share_weight_memory(const Pack& pack, const std::vector<std::vector<Tier>>& homes,
                                 bool unified, std::size_t ring_bytes, std::size_t staging_bytes);

/// As WeightStore::smallest_ring_bytes.
std::size_t smallest_weight_ring(const Pack& pack);

}  // namespace barge
