#pragma once

#include <cstddef>
#include <deque>

#include "offload/weight_store.h"

namespace barge {

/// The weights of a leg, for one half of the block after the other: the first takes them out of the
/// store, the last gives them back. What lies between stays in the ring, which is planned for it.
/// One thread.
class LegWeights {
 public:
  explicit LegWeights(WeightStore& store) : store_(store) {}

  /// A half begins the leg; where there is only one, it is the first and the last.
  void begin(bool first, bool last) {
    first_ = first;
    last_ = last;
    next_ = 0;
  }
  /// The next run of the leg, until `used`. Blocks as WeightStore::next.
  const WeightStore::Run& next() {
    if (first_) runs_.push_back(store_.next());
    return runs_[next_];
  }
  /// The half has read the run after `reader`.
  void used(Event reader) {
    if (!last_) {
      ++next_;
      return;
    }
    store_.release(std::move(runs_.front()), std::move(reader));
    runs_.pop_front();
  }

 private:
  WeightStore& store_;
  bool first_ = true, last_ = true;
  std::size_t next_ = 0;               // of runs_
  std::deque<WeightStore::Run> runs_;  // that the last half hasn't used yet
};

}  // namespace barge
