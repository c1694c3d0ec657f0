#include "offload/kv_pool.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {

KvPool::KvPool(Device& device, Tier tier, std::size_t bytes, std::size_t page_bytes)
    : tier_(tier), page_bytes_(page_bytes), slots_(bytes / page_bytes) {
  if (slots_ > 0) buffer_ = device.allocate(tier, slots_ * page_bytes, "kv cache");
}

void KvPool::check(std::size_t slots) const {
  if (used_ + slots > slots_)
    throw OutOfMemory(concat("the KV cache needs ", slots, " more pages of ",
                             format_bytes(page_bytes_), " in ", name_of(tier_), " memory, where ",
                             used_, " of ", slots_, " are in use; admit fewer sequences at once"));
}

KvPool::Slot KvPool::take() {
  check(1);
  ++used_;
  peak_ = std::max(peak_, used_);
  // A slot that nobody waits for any more beats a warmer one; a short look is enough.
  constexpr std::size_t kLook = 8;
  for (std::size_t back = 1; back <= std::min(kLook, free_.size()); ++back) {
    auto it = free_.end() - static_cast<std::ptrdiff_t>(back);
    drop_done(it->after);
    if (!it->after.empty()) continue;
    Slot slot = std::move(*it);
    free_.erase(it);
    return slot;
  }
  if (static_cast<std::size_t>(fresh_) < slots_) return {fresh_++, {}};
  Slot slot = std::move(free_.back());
  free_.pop_back();
  return slot;
}

void KvPool::give_back(std::int32_t index, Events after) {
  --used_;
  free_.push_back({index, std::move(after)});
}

}  // namespace barge
