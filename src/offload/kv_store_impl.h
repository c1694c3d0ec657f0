#pragma once

#include <deque>
#include <exception>
#include <optional>
#include <unordered_map>
#include <vector>

#include "offload/kv_disk_slots.h"
#include "offload/kv_pages.h"
#include "offload/kv_placement.h"
#include "offload/kv_pool.h"
#include "offload/kv_ring.h"
#include "offload/kv_store.h"

namespace barge {

/// What an open lease took, for `close`.
struct KvStore::Lease::State {
  struct Append {  // new records on the device that must go home
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  int layer = 0;
  std::vector<SequenceId> sequences;
  std::vector<std::byte*> addresses;  // of all spans' pages, one after the other
  std::vector<std::size_t> first;     // [spans + 1]
  std::vector<Append> appends;        // discrete device only
  std::vector<KvPageId> sealed;       // full after this lease, to be written to disk
  std::optional<KvRing::Position> host_region, device_region;
  Events reads;  // of disk pages, and `ready`
};

/// The parts of the store, and what open, close and swap have in common.
class KvStore::Impl {
 public:
  Impl(const Options& options, Device& device, Disk& disk, MemoryBudget& disk_budget);
  ~Impl();
  class Opening;
  class Swap;

  KvSequence& sequence(SequenceId id, const char* what);
  KvPool& pool(Tier home) { return home == Tier::kDevice ? device_pool : host_pool; }
  /// Where disk reads arrive and pages are sealed.
  KvRing& host_ring() { return unified ? device_ring : *discrete_host_ring; }

  /// Of pages; `tail`: of a layer at home on disk one more, in host memory.
  PerTier<std::size_t> bytes(const Placement& homes, int positions, bool tail) const;

  /// Staging pages that a lease takes for one span of a layer with that home.
  struct Staging {
    std::size_t host = 0, device = 0;
  };
  Staging staging(int layer, Tier home, const Span& span) const;
  /// Whether the host attends to the span, in pages of host memory.
  bool by_host(int layer, const Span& span) const {
    return span.generated && options.attending_host != nullptr &&
           !placement.device_layer(static_cast<std::size_t>(layer));
  }

  /// Throws what a disk write failed with, once and for all: the bytes are lost.
  void check_writes();
  /// One owner leaves: the page's places are free after `after`, and after its other former users.
  void leave(KvPageId id, Tier home, const Events& after);
  /// A page of one owner that begins like a sealed one; adds to what to wait for before use.
  KvPageId open_copy(KvPageId of, std::int32_t records, Events& after);
  /// The same where no owner is left.
  void free_page(KvPageId id, Tier home, const Events& after);

  /// The memory in which a page was sealed, while its write may be under way; null: it is on disk.
  /// Throws if the write failed.
  const std::byte* still_staged(KvPage& page);

  struct Extent {  // consecutive on disk and in memory
    KvDiskSlots::Slot slot;
    std::byte* memory;
    std::size_t pages;
    bool extended_by(KvDiskSlots::Slot next, const std::byte* at, std::size_t page_bytes) const {
      return slot + static_cast<KvDiskSlots::Slot>(pages) == next &&
             memory + pages * page_bytes == at;
    }
  };
  Event read(const Extent& extent);
  Event write(const Extent& extent, const Event& after);
  /// Runs of sealed or swapped pages, merged where they lie side by side; sets `written`.
  Events write_pages(const std::vector<KvPageId>& ids, const std::vector<std::byte*>& from,
                     const Event& after);

  /// Copies by a stream; counts what crosses the link.
  void copy(Stream& stream, std::byte* to, Tier to_tier, const std::byte* from, Tier from_tier,
            std::size_t bytes);

  const Options options;
  Device& device;
  Disk& disk;
  const bool unified;
  const std::size_t record_bytes, page_bytes;
  const std::int32_t page_positions;
  KvPool host_pool, device_pool;  // unified: the first alone
  KvRing device_ring;             // what the device sees; unified: host memory
  std::optional<KvRing> discrete_host_ring;
  KvDiskSlots disk_slots;
  PerTier<std::size_t> capacity;
  MemoryBudget::Reservation disk_reservation;
  std::optional<DiskFile> file;
  KvPlacement placement;
  KvPageTable pages;
  std::unordered_map<SequenceId, KvSequence> sequences;
  SequenceId last_sequence = 0;
  KvTraffic traffic;
  std::vector<Event> writes;  // under way
  Events others;              // reads and copies under way: the memory must outlive them
  std::exception_ptr write_failure;
  bool failure_told = false;
};

}  // namespace barge
