#include "offload/kv_ring.h"

#include <algorithm>
#include <cassert>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {

KvRing::KvRing(Device& device, Tier tier, std::size_t bytes, std::size_t page_bytes, Disk* disk)
    : tier_(tier), page_bytes_(page_bytes), slots_(static_cast<Position>(bytes / page_bytes)) {
  if (slots_ == 0) return;
  buffer_ = device.allocate(tier, slots() * page_bytes, "kv staging");
  if (disk != nullptr) registration_.emplace(*disk, std::span(buffer_.data(), buffer_.bytes()));
}

KvRing::Position KvRing::take(std::size_t slots) {
  const auto wanted = static_cast<Position>(slots);
  if (wanted == 0) return head_;
  const auto refuse = [&](const auto&... why) {
    throw OutOfMemory(concat("a micro-batch needs ", slots, " staging pages of ",
                             format_bytes(page_bytes_), " for its KV cache in ", name_of(tier_),
                             " memory, but there are ", slots_, why...,
                             "; use smaller micro-batches or more KV staging"));
  };
  if (wanted > slots_) refuse();
  while (head_ + wanted - tail_ > slots_) {
    Region& oldest = regions_.front();
    if (!oldest.released) refuse(", of which open leases hold ", head_ - tail_);
    wait_until_over(oldest.until);
    tail_ = oldest.end;
    regions_.pop_front();
  }
  regions_.push_back({head_, head_ + wanted, false, {}});
  head_ += wanted;
  return head_ - wanted;
}

KvRing::Region& KvRing::around(Position position) {
  assert(position >= tail_ && position < head_);
  return *std::prev(
      std::upper_bound(regions_.begin(), regions_.end(), position,
                       [](Position p, const Region& region) { return p < region.begin; }));
}

void KvRing::release(Position begin, const Events& until) {
  Region& region = around(begin);
  region.released = true;
  also_after(region.until, until);
}

void KvRing::hold(Position position, const Event& until) {
  also_after(around(position).until, until);
}

void KvRing::drain() {
  for (Region& region : regions_) wait_until_over(region.until);
}

}  // namespace barge
