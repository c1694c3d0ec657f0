#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device.h"
#include "offload/kv_events.h"

namespace barge {

/// Slots of one page each in the memory of one tier. Memory is touched only as slots are taken, and
/// warm slots are taken first. One thread.
class KvPool {
 public:
  /// As many whole slots as fit into `bytes` (none: nothing is allocated).
  KvPool(Device& device, Tier tier, std::size_t bytes, std::size_t page_bytes);

  struct Slot {
    std::int32_t index = -1;
    Events after;  // of former users: whoever writes to the slot must wait for them
  };
  /// Throws OutOfMemory, naming pages wanted and had.
  Slot take();
  /// The slot may be written to after `after`.
  void give_back(std::int32_t index, Events after);
  /// Throws OutOfMemory unless `slots` could be taken now.
  void check(std::size_t slots) const;

  std::byte* at(std::int32_t index) const {
    return buffer_.data() + static_cast<std::size_t>(index) * page_bytes_;
  }
  Tier tier() const { return tier_; }
  std::size_t capacity_bytes() const { return slots_ * page_bytes_; }
  std::size_t held_bytes() const { return used_ * page_bytes_; }
  std::size_t peak_bytes() const { return peak_ * page_bytes_; }

 private:
  const Tier tier_;
  const std::size_t page_bytes_, slots_;
  Buffer buffer_;
  std::vector<Slot> free_;  // last in, first out: the warmest
  std::int32_t fresh_ = 0;  // never taken: this slot and all above
  std::size_t used_ = 0, peak_ = 0;
};

}  // namespace barge
