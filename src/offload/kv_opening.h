#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "offload/kv_store_impl.h"

namespace barge {

/// One `open` in the making. The constructor checks that it can succeed and waits for staging;
/// `finish` assigns the pages and starts the transfers.
class KvStore::Impl::Opening {
 public:
  Opening(Impl& impl, int layer, std::span<const Span> spans);
  Lease finish();

 private:
  struct Need {
    std::size_t host_slots = 0, device_slots = 0, disk_slots = 0;
    std::size_t host_staging = 0, device_staging = 0;  // pages
  };
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
    Tier to_tier, from_tier;
    int reads;  // so many of the lease's disk reads must be over
  };

  void check() const;
  Need count();
  void assign(const Span& span);
  bool in_place(Tier home) const { return in_place_ || home == Tier::kDevice; }
  std::byte* read_page(KvPageId id, std::int32_t records);
  std::byte* append_page(KvSequence& sequence, KvLayer& at, std::int32_t index, std::int32_t kept,
                         std::int32_t end);
  std::byte* seal(KvPageId id, const KvSequence& sequence, KvLayer& at, std::int32_t index);
  std::byte* take_slot(KvPageId id);
  void move_kept(KvPageId old, std::byte* to, std::int32_t kept);
  void read_from_disk(KvDiskSlots::Slot slot, std::byte* to);
  std::byte* show(const std::byte* from, std::size_t bytes);
  void push(const Copy& copy);
  Event start();
  void settle(const Event& ready);

  std::size_t to_bytes(std::int32_t records) const {
    return static_cast<std::size_t>(records) * impl_.record_bytes;
  }

  Impl& impl_;
  const int layer_;
  const std::span<const Span> spans_;
  const bool by_host_;   // attends, in host memory
  const bool in_place_;  // pages of host memory are used where they are
  std::unique_ptr<Lease::State> state_;
  KvRing::Position host_next_ = 0, device_next_ = 0;
  Tier home_ = Tier::kHost;       // of the span being assigned
  std::int32_t spare_slot_ = -1;  // that its tail left behind
  Events needed_;                 // before anything is copied or computed
  std::vector<Extent> extents_;   // to be read
  std::vector<Copy> copies_;      // in this order
  std::vector<KvRing::Position> held_;
  std::vector<KvPageId> shared_;  // left to other owners
  std::vector<std::pair<KvPageId, Tier>> orphaned_;
  std::vector<std::int32_t> spares_;
};

}  // namespace barge
