#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/tier.h"
#include "kernels/cuda/copy_ranges.h"

namespace barge::cuda {

/// Copies that follow each other in a stream, from one tier to one other, and that may as well run
/// all at once.
class CopyBatch {
 public:
  CopyBatch(Tier to_tier, Tier from_tier) : to_tier_(to_tier), from_tier_(from_tier) {}

  /// Takes the copy along, unless it goes another way, the batch is full, or one of the two writes
  /// what the other touches.
  bool add(Tier to_tier, Tier from_tier, const CopyRange& range);

  bool full() const { return ranges_.size() == kCopyRangesOfALaunch; }
  Tier to_tier() const { return to_tier_; }
  Tier from_tier() const { return from_tier_; }
  std::span<const CopyRange> ranges() const { return ranges_; }

 private:
  Tier to_tier_, from_tier_;
  std::vector<CopyRange> ranges_;
};

}  // namespace barge::cuda
