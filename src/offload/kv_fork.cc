// A new sequence that begins like another one.
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/kv_store_impl.h"

namespace barge {

// Whole pages are shared, and an open tail until one of its owners appends. Of a sealed page that
// the new sequence uses in part it gets a copy at once: it becomes its tail, which is counted in
// host memory, and the sealed page goes with its owner.
KvStore::SequenceId KvStore::fork(SequenceId of, int positions, int max_positions) {
  impl_->check_writes();
  const KvSequence& parent = impl_->sequence(of, "fork");
  const auto refuse = [&](const auto&... why) {
    throw Error(concat("cannot fork KV sequence ", of, " at position ", positions, ": ", why...));
  };
  if (parent.out) refuse("it is swapped out");
  if (positions < 0 || max_positions <= 0 || positions > max_positions)
    refuse("the fork has room for ", max_positions);
  const auto shared = static_cast<std::size_t>(positions / impl_->page_positions);
  const int rest = positions % impl_->page_positions;
  std::size_t copies = 0;
  for (const KvLayer& layer : parent.layers) {
    if (layer.leased) refuse("a lease of its pages is still open");
    if (layer.positions < positions) refuse("a layer has only ", layer.positions, " positions");
    if (rest > 0 && impl_->pages[layer.pages[shared]].sealed) ++copies;
  }
  impl_->host_pool.check(copies);

  KvSequence child{.homes = parent.homes, .max_positions = max_positions};
  for (const KvLayer& from : parent.layers) {
    KvLayer& layer = child.layers.emplace_back();
    layer.positions = positions;
    layer.after = from.after;  // what the shared pages hold is there only then
    layer.pages.assign(from.pages.begin(),
                       from.pages.begin() + static_cast<std::ptrdiff_t>(shared + (rest > 0)));
    if (rest > 0 && impl_->pages[layer.pages.back()].sealed)
      layer.pages.back() = impl_->open_copy(layer.pages.back(), rest, layer.after);
    else if (rest > 0)
      ++impl_->pages[layer.pages.back()].owners;
    for (std::size_t i = 0; i < shared; ++i) ++impl_->pages[layer.pages[i]].owners;
  }
  impl_->placement.add(child.homes, max_positions);
  impl_->sequences.emplace(++impl_->last_sequence, std::move(child));
  return impl_->last_sequence;
}

// The first records of a sealed page, in a slot of host memory; they are there after `after`.
KvPageId KvStore::Impl::open_copy(KvPageId of, std::int32_t records, Events& after) {
  const KvPageId id = pages.create();
  KvPool::Slot slot = host_pool.take();
  pages[id].pool_slot = slot.index;
  std::byte* const to = host_pool.at(slot.index);
  KvPage& sealed = pages[of];
  if (const std::byte* staged = still_staged(sealed)) {
    Stream& load = device.load();
    for (const Event& event : slot.after) load.wait(event);
    for (const Event& event : after) load.wait(event);
    copy(load, to, Tier::kHost, staged, Tier::kHost,
         static_cast<std::size_t>(records) * record_bytes);
    after = {load.record()};
    host_ring().hold(sealed.staged, after.back());
    also_after(others, after);
  } else {
    wait_until_over(slot.after);  // the disk can't
    const Event there = read({sealed.disk_slot, to, 1});
    also_after(after, there);
    also_after(sealed.former, there);
  }
  return id;
}

}  // namespace barge
