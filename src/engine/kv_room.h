#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "engine/sequence.h"
#include "offload/kv_store.h"
#include "policy/policy.h"

namespace barge {

/// Which of the live sequences are in the KV cache: always the oldest. Where the policy allows it,
/// they are let in by what they are expected to need. Those that outgrow that push the youngest
/// aside: to disk while there is room for it, else their KV is dropped and computed again, prompt
/// by prefill and answer by decoding, to the same bits. The oldest always stays, and alone it runs
/// to its end, so nothing waits for ever. One thread.
class KvRoom {
 public:
  /// `swap_bytes`: of disk, for sequences that are put aside.
  KvRoom(KvStore& kv, const Policy& policy, std::size_t swap_bytes);

  using Live = std::span<const std::unique_ptr<Sequence>>;  // in the order of entry
  /// Puts the youngest aside until what the next sweep adds has room.
  void put_aside(Live live);
  /// Brings back those who were put aside, the oldest first, as far as they are expected to have
  /// room; whether all are back.
  bool bring_back(Live live);
  /// Lets a new sequence in, if it is expected to have room beside the live ones, all of them in
  /// the cache; whether it did.
  bool enter(Sequence& next, Live live);
  /// Why `next` can't run even alone, after `enter` beside nobody.
  std::string shortage(const Sequence& next) const;
  /// Frees what a sequence holds, wherever that is.
  void leave(Sequence& sequence);

  std::size_t swaps() const { return swaps_; }      // sequences put aside
  std::size_t replays() const { return replays_; }  // those of them whose KV was dropped

 private:
  int expected_positions(const Sequence& sequence) const;
  bool next_sweep_fits(Live live) const;
  bool has_room_for(const Sequence& candidate, Live live) const;
  bool swap_has_room_for(const Sequence& candidate, Live live) const;
  KvDemand demand(const KvStore::Placement& placement, int positions) const;

  KvStore& kv_;
  const bool over_commit_;
  const int page_positions_, planned_positions_;
  const std::size_t swap_bytes_;
  std::size_t swaps_ = 0, replays_ = 0;
};

}  // namespace barge
