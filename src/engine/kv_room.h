#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "engine/prefix_cache.h"
#include "engine/sequence.h"
#include "offload/kv_store.h"
#include "policy/policy.h"

namespace barge {

/// Which of the live sequences are in the KV cache: always the oldest. Where the policy allows it,
/// they are let in by what they are expected to need. Those that outgrow that push the youngest
/// aside: to disk while there is room for it, else their KV is dropped and computed again, prompt
/// by prefill and answer by decoding, to the same bits. The oldest always stays, and alone it runs
/// to its end, so nothing waits for ever.
///
/// Prompts that begin alike share that beginning. What several use is counted once, and as if they
/// used it for ever; what is kept for prompts to come counts only until a sequence wants its room.
/// One thread.
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
  /// The live sequence that is computing a beginning of this prompt, and how long that is, if it is
  /// worth waiting for.
  struct Coming {
    std::uint64_t owner = 0;  // 0: nobody
    int positions = 0;
  };
  Coming coming(const Sequence& next) const;
  /// Lets a new sequence in, if it is expected to have room beside the live ones, all of them in
  /// the cache; whether it did.
  bool enter(Sequence& next, Live live);
  /// Why `next` can't run even alone, after `enter` beside nobody.
  std::string shortage(const Sequence& next) const;
  /// More of its prompt is in the cache than before.
  void advanced(Sequence& sequence);
  /// Frees what a sequence holds, wherever that is; its prompt is kept for others.
  void leave(Sequence& sequence);

  std::size_t swaps() const { return swaps_; }      // sequences put aside
  std::size_t replays() const { return replays_; }  // those of them whose KV was dropped
  std::size_t shared_tokens() const { return shared_tokens_; }  // that weren't computed again
  /// In the cache for sequences that run.
  PerTier<std::size_t> bytes_in_use() const;

 private:
  using Match = PrefixCache::Match;

  int expected_positions(const Sequence& sequence) const;
  bool may_share(const Sequence& sequence) const;
  bool begin(Sequence& sequence, Live live);
  bool begin(Sequence& sequence, Live live, const Match& from);
  bool make_room(Live live, const Sequence* next);
  bool next_sweep_fits(Live live, const Sequence* next) const;
  bool has_room_for(const Sequence& candidate, const Match& from, Live live) const;
  bool swap_has_room_for(const Sequence& candidate, Live live) const;
  void register_prompt(Sequence& sequence, const Match& from);
  void leave_prompt(Sequence& sequence, bool keep);
  KvDemand demand(const KvStore::Placement& placement, int positions) const;

  KvStore& kv_;
  PrefixCache prefixes_;
  const bool over_commit_, sharing_;
  const int page_positions_, planned_positions_;
  const std::size_t swap_bytes_;
  std::size_t swaps_ = 0, replays_ = 0, shared_tokens_ = 0;
};

}  // namespace barge
