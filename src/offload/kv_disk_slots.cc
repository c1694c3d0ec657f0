#include "offload/kv_disk_slots.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {

KvDiskSlots::KvDiskSlots(std::int64_t slots, std::size_t page_bytes)
    : slots_(slots), page_bytes_(page_bytes) {
  if (slots > 0) free_.emplace(0, slots);
}

void KvDiskSlots::check(std::size_t slots) const {
  if (used_ + static_cast<std::int64_t>(slots) > slots_)
    throw OutOfMemory(concat("the KV cache needs ", slots, " more pages of ",
                             format_bytes(page_bytes_), " on disk, where ", used_, " of ", slots_,
                             " are in use; admit fewer sequences at once or raise --disk-space"));
}

KvDiskSlots::Run KvDiskSlots::open_run(std::int64_t wanted) {
  collect(/*block=*/false);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (best == free_.end() || it->second - it->first > best->second - best->first) best = it;
    if (it->second - it->first >= wanted) break;
  }
  if (best == free_.end() || wanted <= 0) return 0;
  const auto [begin, end] = *best;
  const Slot cut = std::min(end, begin + wanted);
  free_.erase(best);
  if (cut < end) free_.emplace(cut, end);
  runs_.emplace(++last_run_, Extent{begin, cut});
  return last_run_;
}

KvDiskSlots::Slot KvDiskSlots::take(Run run) {
  check(1);
  ++used_;
  peak_ = std::max(peak_, used_);
  if (const auto it = runs_.find(run); it != runs_.end()) {
    const Slot slot = it->second.begin++;
    if (it->second.begin == it->second.end) runs_.erase(it);
    return slot;
  }
  return steal();
}

// Slots that nobody asked for come first, then the ends of other runs, then those being left.
KvDiskSlots::Slot KvDiskSlots::steal() {
  collect(/*block=*/free_.empty() && runs_.empty());
  if (!free_.empty()) {
    const auto [begin, end] = *free_.begin();
    free_.erase(free_.begin());
    if (begin + 1 < end) free_.emplace(begin + 1, end);
    return begin;
  }
  const auto victim = runs_.begin();
  const Slot slot = --victim->second.end;
  if (victim->second.begin == victim->second.end) runs_.erase(victim);
  return slot;
}

void KvDiskSlots::close_run(Run run) {
  const auto it = runs_.find(run);
  if (it == runs_.end()) return;
  insert(it->second);
  runs_.erase(it);
}

void KvDiskSlots::give_back(Slot slot, Events after) {
  --used_;
  drop_done(after);
  if (after.empty())
    insert({slot, slot + 1});
  else
    leaving_.push_back({slot, std::move(after)});
}

void KvDiskSlots::collect(bool block) {
  std::erase_if(leaving_, [this](Leaving& leaving) {
    drop_done(leaving.after);
    if (!leaving.after.empty()) return false;
    insert({leaving.slot, leaving.slot + 1});
    return true;
  });
  if (!block || !free_.empty()) return;
  wait_until_over(leaving_.front().after);
  insert({leaving_.front().slot, leaving_.front().slot + 1});
  leaving_.pop_front();
}

void KvDiskSlots::insert(Extent extent) {
  auto next = free_.lower_bound(extent.begin);
  if (next != free_.end() && next->first == extent.end) {
    extent.end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (const auto before = std::prev(next); before->second == extent.begin) {
      before->second = extent.end;
      return;
    }
  free_.emplace(extent.begin, extent.end);
}

}  // namespace barge
