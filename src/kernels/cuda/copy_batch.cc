#include "kernels/cuda/copy_batch.h"

#include <algorithm>
#include <cstdint>

namespace barge::cuda {
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto a_first = reinterpret_cast<std::uintptr_t>(a);
  const auto b_first = reinterpret_cast<std::uintptr_t>(b);
  return a_first < b_first + b_bytes && b_first < a_first + a_bytes;
}

bool depend(const CopyRange& a, const CopyRange& b) {
  return overlap(a.to, a.bytes, b.to, b.bytes) || overlap(a.to, a.bytes, b.from, b.bytes) ||
         overlap(a.from, a.bytes, b.to, b.bytes);
}

}  // namespace

bool CopyBatch::add(Tier to_tier, Tier from_tier, const CopyRange& range) {
  if (to_tier != to_tier_ || from_tier != from_tier_ || full()) return false;
  if (std::ranges::any_of(ranges_, [&](const CopyRange& other) { return depend(range, other); }))
    return false;
  ranges_.push_back(range);
  return true;
}

}  // namespace barge::cuda
