#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/tier.h"

namespace barge {

/// Bytes of one sequence's KV cache, by tier, as it grows page by page.
class KvDemand {
 public:
  KvDemand() = default;
  /// `by_pages[n]`: with n pages a layer, n = 0, 1, ... up to the sequence's full length.
  KvDemand(int page_positions, std::vector<PerTier<std::size_t>> by_pages)
      : page_positions_(page_positions), by_pages_(std::move(by_pages)) {}

  /// With `positions` in the cache; beyond the full length as at the full length.
  const PerTier<std::size_t>& at(int positions) const {
    const auto pages =
        static_cast<std::size_t>((positions + page_positions_ - 1) / page_positions_);
    return by_pages_[std::min(pages, by_pages_.size() - 1)];
  }

 private:
  int page_positions_ = 1;
  std::vector<PerTier<std::size_t>> by_pages_{PerTier<std::size_t>{}};
};

}  // namespace barge
