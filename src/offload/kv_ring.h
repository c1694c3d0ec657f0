#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/device.h"
#include "offload/disk_registration.h"
#include "offload/kv_events.h"

namespace barge {

/// Staging memory, page by page, handed out in a circle: the leases of a sweep come and go in
/// order. Positions count up for ever; position p is slot p % slots. One thread.
class KvRing {
 public:
  using Position = std::int64_t;

  /// As many whole pages as fit into `bytes` (none: nothing is allocated). `disk`: whose reads and
  /// writes use them, if any's.
  KvRing(Device& device, Tier tier, std::size_t bytes, std::size_t page_bytes,
         Disk* disk = nullptr);

  /// Takes `slots` consecutive positions, whose memory nobody uses any more; blocks until earlier
  /// regions are free. Throws OutOfMemory if the ring is too small, or if regions that were not
  /// released are in the way: the caller's one thread could never release them.
  Position take(std::size_t slots);
  /// The region that begins at `begin` (of `take`) is free after `until`.
  void release(Position begin, const Events& until);
  /// The region around `position`, which must be held, isn't free before `until` either.
  void hold(Position position, const Event& until);
  /// Whether the bytes at `position` are still those of its taker.
  bool holds(Position position) const { return position >= tail_; }

  std::byte* at(Position position) const {
    return buffer_.data() + static_cast<std::size_t>(position % slots_) * page_bytes_;
  }
  std::size_t slots() const { return static_cast<std::size_t>(slots_); }
  /// Blocks until no released region is in use.
  void drain();

 private:
  struct Region {
    Position begin, end;
    bool released;
    Events until;
  };
  Region& around(Position position);

  const Tier tier_;
  const std::size_t page_bytes_;
  const Position slots_;
  Buffer buffer_;
  std::optional<DiskRegistration> registration_;  // after the buffer: it ends first
  std::deque<Region> regions_;                    // oldest first, without gaps: [tail_, head_)
  Position tail_ = 0, head_ = 0;
};

}  // namespace barge
