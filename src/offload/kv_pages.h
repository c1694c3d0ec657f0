#pragma once

#include <cstdint>
#include <vector>

#include "core/tier.h"
#include "offload/kv_disk_slots.h"
#include "offload/kv_events.h"
#include "offload/kv_ring.h"

namespace barge {

using KvPageId = std::int32_t;

/// Where one page of records is. It is open (in a slot of a pool, records may be appended by its
/// only owner), sealed (full, never written again; on disk, or on its way there from staging), or,
/// while its sequences are swapped out, in a disk slot.
struct KvPage {
  int owners = 0;               // page tables that it is in
  std::int32_t pool_slot = -1;  // of the memory that the home of its layer means
  KvDiskSlots::Slot disk_slot = -1;
  bool sealed = false;
  KvRing::Position staged = -1;  // sealed: host-side staging memory that it was sealed in
  Event written;                 // to the disk slot; none: known to have succeeded
  Events former;                 // last uses by owners that have left
};

/// One layer of a sequence: its page table.
struct KvLayer {
  std::vector<KvPageId> pages;
  std::int32_t positions = 0;
  bool leased = false;
  KvDiskSlots::Run run = 0;  // where its disk pages lie
  Events after;              // this sequence's last uses of its pages, its last writes among them
};

struct KvSequence {
  std::vector<Tier> homes;  // [layers]
  std::int32_t max_positions = 0;
  bool out = false;  // swapped
  std::vector<KvLayer> layers;
};

/// All pages, by number.
class KvPageTable {
 public:
  KvPageId create() {
    if (free_.empty()) {
      pages_.emplace_back();
      free_.push_back(static_cast<KvPageId>(pages_.size() - 1));
    }
    const KvPageId id = free_.back();
    free_.pop_back();
    pages_[static_cast<std::size_t>(id)] = {.owners = 1};
    return id;
  }
  void destroy(KvPageId id) { free_.push_back(id); }
  /// Valid until the next `create`.
  KvPage& operator[](KvPageId id) { return pages_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<KvPage> pages_;
  std::vector<KvPageId> free_;
};

}  // namespace barge
