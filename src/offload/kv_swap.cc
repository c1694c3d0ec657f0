// Moving whole sequences to disk and back, between sweeps.
#include <algorithm>
#include <span>
#include <utility>

#include "core/errors.h"
#include "offload/kv_store_impl.h"

namespace barge {

/// One layer on its way out or in. `wanted` are the places in its page table.
class KvStore::Impl::Swap {
 public:
  Swap(Impl& impl, KvLayer& layer, Tier home)
      : impl_(impl), layer_(layer), home_(home), staged_(!impl.unified && home == Tier::kDevice) {}

  /// Places of pages in memory, which go to disk; of a layer at home there, that is the tail.
  std::vector<std::size_t> in_memory() const {
    return places([](const KvPage& page) { return page.pool_slot >= 0; });
  }
  /// Places of pages that come back to memory.
  std::vector<std::size_t> away() const {
    return places([](const KvPage& page) { return !page.sealed; });
  }

  void out();
  void in();

 private:
  template <typename Wanted>
  std::vector<std::size_t> places(Wanted wanted) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < layer_.pages.size(); ++i)
      if (wanted(impl_.pages[layer_.pages[i]])) found.push_back(i);
    return found;
  }
  /// Cuts the work: pages at home on a discrete device pass through host staging.
  template <typename Work>
  void in_batches(const std::vector<std::size_t>& all, Work work) const {
    const std::size_t most =
        staged_ ? std::max<std::size_t>(impl_.host_ring().slots(), 1) : all.size();
    for (std::size_t i = 0; i < all.size(); i += most)
      work(std::span(all).subspan(i, std::min(most, all.size() - i)));
  }
  void write(std::span<const std::size_t> places, KvDiskSlots::Run run);
  void read(std::span<const std::size_t> places);

  Impl& impl_;
  KvLayer& layer_;
  const Tier home_;
  const bool staged_;
};

void KvStore::Impl::Swap::out() {
  const auto all = in_memory();
  const auto run = impl_.disk_slots.open_run(static_cast<std::int64_t>(all.size()));
  in_batches(all, [&](auto places) { write(places, run); });
  impl_.disk_slots.close_run(run);
}

void KvStore::Impl::Swap::write(std::span<const std::size_t> places, KvDiskSlots::Run run) {
  KvPool& pool = impl_.pool(home_);
  std::vector<KvPageId> from_ids, to_ids;
  std::vector<std::byte*> from;
  for (std::size_t place : places) {
    KvPageId id = layer_.pages[place];
    from_ids.push_back(id);
    from.push_back(pool.at(impl_.pages[id].pool_slot));
    if (impl_.pages[id].owners > 1) id = impl_.pages.create();  // the others keep theirs
    impl_.pages[id].disk_slot = impl_.disk_slots.take(run);
    layer_.pages[place] = id;
    to_ids.push_back(id);
  }
  Event copied;
  std::optional<KvRing::Position> region;
  if (staged_) {
    region = impl_.host_ring().take(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      std::byte* const to = impl_.host_ring().at(*region + static_cast<KvRing::Position>(i));
      impl_.copy(impl_.device.store(), to, Tier::kHost, from[i], Tier::kDevice, impl_.page_bytes);
      from[i] = to;
    }
    copied = impl_.device.store().record();
    also_after(impl_.others, copied);
  }
  const Events written = impl_.write_pages(to_ids, from, copied);
  if (region) impl_.host_ring().release(*region, written);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Event& read = staged_ ? copied : impl_.pages[to_ids[i]].written;
    KvPage& page = impl_.pages[from_ids[i]];
    also_after(page.former, read);
    if (from_ids[i] != to_ids[i])
      --page.owners;
    else
      pool.give_back(std::exchange(page.pool_slot, -1), std::exchange(page.former, {}));
  }
}

void KvStore::Impl::Swap::in() {
  in_batches(away(), [&](auto places) { read(places); });
}

void KvStore::Impl::Swap::read(std::span<const std::size_t> places) {
  KvPool& pool = impl_.pool(home_);
  std::optional<KvRing::Position> region;
  if (staged_) region = impl_.host_ring().take(places.size());
  std::vector<Extent> extents;
  std::vector<std::byte*> to;
  std::vector<KvDiskSlots::Slot> from;
  Events slots_free;
  for (std::size_t i = 0; i < places.size(); ++i) {
    KvPage& page = impl_.pages[layer_.pages[places[i]]];
    std::exchange(page.written, {}).wait();
    KvPool::Slot slot = pool.take();
    page.pool_slot = slot.index;
    from.push_back(std::exchange(page.disk_slot, -1));
    to.push_back(pool.at(slot.index));
    if (staged_)
      also_after(slots_free, slot.after);
    else
      wait_until_over(slot.after);  // the disk can't
    std::byte* const memory =
        staged_ ? impl_.host_ring().at(*region + static_cast<KvRing::Position>(i)) : to.back();
    if (!extents.empty() && extents.back().extended_by(from.back(), memory, impl_.page_bytes))
      ++extents.back().pages;
    else
      extents.push_back({from.back(), memory, 1});
  }
  Events reads, there;
  for (const Extent& extent : extents) reads.push_back(impl_.read(extent));
  there = reads;
  if (staged_) {
    Stream& load = impl_.device.load();
    for (const Event& event : slots_free) load.wait(event);
    for (const Event& event : reads) load.wait(event);
    for (std::size_t i = 0; i < places.size(); ++i)
      impl_.copy(load, to[i], Tier::kDevice,
                 impl_.host_ring().at(*region + static_cast<KvRing::Position>(i)), Tier::kHost,
                 impl_.page_bytes);
    there = {load.record()};
    also_after(impl_.others, there);
    Events until = reads;
    also_after(until, there);
    impl_.host_ring().release(*region, until);
  }
  for (KvDiskSlots::Slot slot : from) impl_.disk_slots.give_back(slot, reads);
  also_after(layer_.after, there);
}

void KvStore::swap_out(SequenceId id) {
  impl_->check_writes();
  KvSequence& sequence = impl_->sequence(id, "swap out");
  if (sequence.out) throw Error(concat("cannot swap out KV sequence ", id, ": it is out already"));
  std::size_t pages = 0;
  for (std::size_t i = 0; i < sequence.layers.size(); ++i) {
    KvLayer& layer = sequence.layers[i];
    if (layer.leased)
      throw Error(
          concat("cannot swap out KV sequence ", id, ": a lease of its pages is still open"));
    for (const Event& event : layer.after) event.wait();
    layer.after.clear();
    pages += Impl::Swap(*impl_, layer, sequence.homes[i]).in_memory().size();
  }
  impl_->disk_slots.check(pages);
  for (std::size_t i = 0; i < sequence.layers.size(); ++i)
    Impl::Swap(*impl_, sequence.layers[i], sequence.homes[i]).out();
  sequence.out = true;
}

void KvStore::swap_in(SequenceId id) {
  impl_->check_writes();
  KvSequence& sequence = impl_->sequence(id, "swap in");
  if (!sequence.out) throw Error(concat("cannot swap in KV sequence ", id, ": it isn't out"));
  PerTier<std::size_t> pages;  // of the pools
  for (std::size_t i = 0; i < sequence.layers.size(); ++i) {
    const Tier home = sequence.homes[i];
    pages[home == Tier::kDevice ? home : Tier::kHost] +=
        Impl::Swap(*impl_, sequence.layers[i], home).away().size();
  }
  impl_->host_pool.check(pages.host);
  impl_->device_pool.check(pages.device);
  for (std::size_t i = 0; i < sequence.layers.size(); ++i)
    Impl::Swap(*impl_, sequence.layers[i], sequence.homes[i]).in();
  sequence.out = false;
}

}  // namespace barge
