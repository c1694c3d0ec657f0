#pragma once

#include <cstddef>
#include <span>

#include "core/tier.h"
#include "engine/kv_demand.h"

namespace barge {

/// What admission foresees of a sequence. Decoding ones gain one position a sweep and end after
/// `positions_left` of them at the latest; when a prompt will be through depends on its company.
struct KvForecast {
  const KvDemand* demand = nullptr;
  bool decoding = false;
  int positions = 0;            // in the cache now; of a prompt: all that it will feed
  int positions_left = 0;       // still to come
  PerTier<std::size_t> shared;  // bytes of `demand` that are counted elsewhere
};

/// Whether the KV cache of all `sequences` fits `capacity` in every later sweep, whichever of them
/// end early. Decoding sequences are followed exactly; prompts count as if they were through with
/// the next sweep and as if they never ended, for either may happen. Arithmetic only.
bool kv_fits(std::span<const KvForecast> sequences, const PerTier<std::size_t>& capacity);

}  // namespace barge
