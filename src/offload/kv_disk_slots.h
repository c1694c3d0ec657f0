#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "offload/kv_events.h"

namespace barge {

/// Which page slots of the scratch file are in use. Pages that will be read together come from one
/// run, so that they lie side by side; a run only asks for its place: where slots are short, others
/// take from it. One thread.
class KvDiskSlots {
 public:
  using Slot = std::int64_t;
  using Run = std::int64_t;  // 0: none

  KvDiskSlots(std::int64_t slots, std::size_t page_bytes);

  /// A run of up to `wanted` slots, as many as there are in one place.
  Run open_run(std::int64_t wanted);
  /// The next slot of the run; where that has none left, any. Blocks where all free slots have
  /// users left. Throws OutOfMemory, naming pages wanted and had.
  Slot take(Run run);
  /// What the run has left is free for others.
  void close_run(Run run);
  /// The slot may be written to after `after`.
  void give_back(Slot slot, Events after);
  /// Throws OutOfMemory unless `slots` could be taken now.
  void check(std::size_t slots) const;

  std::size_t capacity_bytes() const { return static_cast<std::size_t>(slots_) * page_bytes_; }
  std::size_t held_bytes() const { return static_cast<std::size_t>(used_) * page_bytes_; }
  std::size_t peak_bytes() const { return static_cast<std::size_t>(peak_) * page_bytes_; }

 private:
  struct Extent {
    Slot begin, end;
  };
  struct Leaving {
    Slot slot;
    Events after;
  };
  void insert(Extent extent);
  void collect(bool block);
  Slot steal();

  const std::int64_t slots_;
  const std::size_t page_bytes_;
  std::int64_t used_ = 0, peak_ = 0;
  std::map<Slot, Slot> free_;   // begin → end of what is neither used nor asked for; merged
  std::map<Run, Extent> runs_;  // what they have left, never empty
  Run last_run_ = 0;
  std::deque<Leaving> leaving_;  // given back, not yet free
};

}  // namespace barge
