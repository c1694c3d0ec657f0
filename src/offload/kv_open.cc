// Opening a lease: where each page of a micro-batch is, where its new records will be, and what
// must move before the device can work on them.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/kv_opening.h"

namespace barge {

using Span = KvStore::Span;

KvStore::Impl::Opening::Opening(Impl& impl, int layer, std::span<const Span> spans)
    : impl_(impl),
      layer_(layer),
      spans_(spans),
      by_host_(!spans.empty() && impl.by_host(layer, spans.front())),
      in_place_(impl.unified || by_host_),
      state_(std::make_unique<Lease::State>()) {
  check();
  const Need need = count();
  impl_.host_pool.check(need.host_slots);
  if (need.device_slots > 0) impl_.device_pool.check(need.device_slots);
  if (need.disk_slots > 0) impl_.disk_slots.check(need.disk_slots);
  if (need.device_staging > 0)
    state_->device_region = device_next_ = impl_.device_ring.take(need.device_staging);
  if (need.host_staging > 0) try {
      state_->host_region = host_next_ = impl_.host_ring().take(need.host_staging);
    } catch (...) {
      if (state_->device_region) impl_.device_ring.release(*state_->device_region, {});
      throw;
    }
}

void KvStore::Impl::Opening::check() const {
  std::vector<SequenceId> ids;
  for (const Span& span : spans_) {
    const KvSequence& sequence = impl_.sequence(span.sequence, "open KV pages of");
    const KvLayer& at = sequence.layers.at(static_cast<std::size_t>(layer_));
    const auto refuse = [&](const auto&... why) {
      throw Error(concat("cannot open KV pages of sequence ", span.sequence, " in layer ", layer_,
                         ": ", why...));
    };
    if (sequence.out) refuse("it is swapped out");
    if (impl_.by_host(layer_, span) != by_host_)
      refuse("the host attends to some spans of the lease, the device to others");
    if (by_host_ && sequence.homes[static_cast<std::size_t>(layer_)] == Tier::kDevice)
      refuse("the host would attend to it, but it is at home on the device");
    if (at.leased) refuse("an earlier lease of them is still open");
    if (span.first_position != at.positions || span.rows < 0)
      refuse("it has ", at.positions, " positions, the span begins at ", span.first_position,
             " and has ", span.rows, " rows");
    if (span.rows > sequence.max_positions - span.first_position)
      refuse("it was added for ", sequence.max_positions, " positions, wanted are ",
             span.first_position, " + ", span.rows);
    ids.push_back(span.sequence);
  }
  std::sort(ids.begin(), ids.end());
  if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end())
    throw Error(concat("cannot open KV pages of sequence ", *twice, " twice in one lease"));
}

// What the spans will take, exactly: nothing is changed before it is known to be there.
KvStore::Impl::Opening::Need KvStore::Impl::Opening::count() {
  Need need;
  std::unordered_map<KvPageId, int> left;  // shared tails: how many of these spans leave them
  for (const Span& span : spans_) {
    const KvSequence& sequence = impl_.sequences.at(span.sequence);
    const Tier home = sequence.homes[static_cast<std::size_t>(layer_)];
    const auto staging = impl_.staging(layer_, home, span);
    need.device_staging += staging.device;
    need.host_staging += staging.host;
    if (span.rows == 0) continue;
    const KvLayer& at = sequence.layers[static_cast<std::size_t>(layer_)];
    const std::int32_t page_positions = impl_.page_positions;
    const std::int32_t end = span.first_position + span.rows;
    const auto whole = static_cast<std::size_t>(end / page_positions);
    bool own_tail = false, shared_tail = false;
    if (span.first_position % page_positions != 0) {
      const KvPage& tail = impl_.pages[at.pages.back()];
      shared_tail = tail.owners - left[at.pages.back()] > 1;
      if (shared_tail) ++left[at.pages.back()];
      own_tail = !shared_tail;
    }
    if (home == Tier::kDisk) {
      need.disk_slots += whole - static_cast<std::size_t>(span.first_position / page_positions);
      if (end % page_positions != 0 && !own_tail) ++need.host_slots;
      continue;
    }
    const std::size_t pages = whole + (end % page_positions != 0);
    (home == Tier::kDevice ? need.device_slots : need.host_slots) +=
        pages - at.pages.size() + (shared_tail ? 1 : 0);
  }
  return need;
}

KvStore::Lease KvStore::Impl::Opening::finish() {
  Lease::State& state = *state_;
  state.layer = layer_;
  for (const Span& span : spans_) {
    state.first.push_back(state.addresses.size());
    state.sequences.push_back(span.sequence);
    assign(span);
  }
  state.first.push_back(state.addresses.size());
  Lease lease;
  lease.ready = start();
  settle(lease.ready);
  lease.state_ = std::move(state_);
  return lease;
}

void KvStore::Impl::Opening::assign(const Span& span) {
  KvSequence& sequence = impl_.sequences.at(span.sequence);
  KvLayer& at = sequence.layers[static_cast<std::size_t>(layer_)];
  home_ = sequence.homes[static_cast<std::size_t>(layer_)];
  spare_slot_ = -1;
  also_after(needed_, at.after);
  const std::int32_t per_page = impl_.page_positions, end = span.first_position + span.rows;
  std::int32_t position = 0;
  for (; position + per_page <= span.first_position ||
         (span.rows == 0 && position < span.first_position);
       position += per_page)
    state_->addresses.push_back(read_page(at.pages[static_cast<std::size_t>(position / per_page)],
                                          std::min(per_page, span.first_position - position)));
  for (; position < end; position += per_page)
    state_->addresses.push_back(append_page(sequence, at, position / per_page,
                                            std::max(0, span.first_position - position),
                                            std::min(per_page, end - position)));
  if (spare_slot_ >= 0) spares_.push_back(spare_slot_);
  at.positions = end;
}

// A page of which nothing changes.
std::byte* KvStore::Impl::Opening::read_page(KvPageId id, std::int32_t records) {
  const std::size_t bytes = records == impl_.page_positions ? impl_.page_bytes : to_bytes(records);
  KvPage& page = impl_.pages[id];
  if (page.pool_slot >= 0) {
    std::byte* const at = impl_.pool(home_).at(page.pool_slot);
    return in_place(home_) ? at : show(at, bytes);
  }
  const KvRing::Position position = host_next_++;
  std::byte* const to = impl_.host_ring().at(position);
  if (const std::byte* staged = impl_.still_staged(page)) {
    held_.push_back(page.staged);
    if (!in_place_) return show(staged, bytes);
    push({to, staged, bytes, Tier::kHost, Tier::kHost, /*reads=*/0});
    return to;
  }
  read_from_disk(page.disk_slot, to);
  return in_place_ ? to : show(to, bytes);
}

// A page that gets new records behind its first `kept` ones, up to `end`.
std::byte* KvStore::Impl::Opening::append_page(KvSequence& sequence, KvLayer& at,
                                               std::int32_t index, std::int32_t kept,
                                               std::int32_t end) {
  const auto i = static_cast<std::size_t>(index);
  const bool seals = home_ == Tier::kDisk && end == impl_.page_positions;
  std::byte* to = nullptr;
  if (const KvPageId old = kept > 0 ? at.pages[i] : -1;
      old >= 0 && !seals && impl_.pages[old].owners == 1) {
    also_after(needed_, std::exchange(impl_.pages[old].former, {}));
    to = impl_.pool(home_).at(impl_.pages[old].pool_slot);
  } else {
    const KvPageId id = impl_.pages.create();
    to = seals ? seal(id, sequence, at, index) : take_slot(id);
    if (old >= 0) {
      move_kept(old, to, kept);
      at.pages[i] = id;
    } else {
      at.pages.push_back(id);
    }
  }
  if (in_place(home_)) return to;
  std::byte* const shown = show(to, to_bytes(kept));
  state_->appends.push_back({to + to_bytes(kept), shown + to_bytes(kept), to_bytes(end - kept)});
  return shown;
}

// Pages that fill do so in staging memory, from where they are written: so a sequence never holds
// more than one page of the pool for each layer at home on disk.
std::byte* KvStore::Impl::Opening::seal(KvPageId id, const KvSequence& sequence, KvLayer& at,
                                        std::int32_t index) {
  if (at.run == 0)
    at.run = impl_.disk_slots.open_run(sequence.max_positions / impl_.page_positions - index);
  KvPage& page = impl_.pages[id];
  page.sealed = true;
  page.disk_slot = impl_.disk_slots.take(at.run);
  page.staged = host_next_++;
  state_->sealed.push_back(id);
  return impl_.host_ring().at(page.staged);
}

std::byte* KvStore::Impl::Opening::take_slot(KvPageId id) {
  KvPool& pool = impl_.pool(home_);
  KvPage& page = impl_.pages[id];
  if (spare_slot_ >= 0) {
    page.pool_slot = std::exchange(spare_slot_, -1);
  } else {
    KvPool::Slot slot = pool.take();
    page.pool_slot = slot.index;
    also_after(needed_, slot.after);
  }
  return pool.at(page.pool_slot);
}

// The sequence leaves an open page, with a copy of its first records.
void KvStore::Impl::Opening::move_kept(KvPageId old, std::byte* to, std::int32_t kept) {
  KvPage& page = impl_.pages[old];
  const KvPool& pool = impl_.pool(home_);
  push({to, pool.at(page.pool_slot), to_bytes(kept), pool.tier(), pool.tier(), /*reads=*/0});
  if (--page.owners > 0) {
    shared_.push_back(old);
    return;
  }
  // The slot may serve again in this lease: its new records come after `ready`, so after the copy.
  if (home_ == Tier::kDisk) {
    also_after(needed_, page.former);
    spare_slot_ = std::exchange(page.pool_slot, -1);
  }
  orphaned_.emplace_back(old, home_);
}

void KvStore::Impl::Opening::read_from_disk(KvDiskSlots::Slot slot, std::byte* to) {
  if (!extents_.empty() && extents_.back().extended_by(slot, to, impl_.page_bytes))
    ++extents_.back().pages;
  else
    extents_.push_back({slot, to, 1});
}

// The device's view of a page in host memory.
std::byte* KvStore::Impl::Opening::show(const std::byte* from, std::size_t bytes) {
  std::byte* const to = impl_.device_ring.at(device_next_++);
  if (bytes > 0)
    push({to, from, bytes, Tier::kDevice, Tier::kHost, static_cast<int>(extents_.size())});
  return to;
}

void KvStore::Impl::Opening::push(const Copy& copy) {
  if (!copies_.empty()) {
    Copy& last = copies_.back();
    if (last.to + last.bytes == copy.to && last.from + last.bytes == copy.from &&
        last.to_tier == copy.to_tier && last.reads == copy.reads) {
      last.bytes += copy.bytes;
      return;
    }
  }
  copies_.push_back(copy);
}

// Starts all reads and copies; the event after which the device may work.
Event KvStore::Impl::Opening::start() {
  Events reads;
  for (const Extent& extent : extents_) reads.push_back(impl_.read(extent));
  drop_succeeded(needed_);  // what failed must fail `ready`
  state_->reads = reads;
  if (needed_.empty() && reads.empty() && copies_.empty()) return {};
  // The attending side's own stream: the other may be far ahead, or wait for this one.
  Stream& load = by_host_ ? impl_.options.attending_host->load() : impl_.device.load();
  drop_repeated(needed_);  // most sequences were last used by the same micro-batch
  for (const Event& event : needed_) load.wait(event);
  std::size_t waited = 0;
  for (const Copy& copy : copies_) {
    for (; waited < static_cast<std::size_t>(copy.reads); ++waited) load.wait(reads[waited]);
    impl_.copy(load, copy.to, copy.to_tier, copy.from, copy.from_tier, copy.bytes);
  }
  for (; waited < reads.size(); ++waited) load.wait(reads[waited]);
  Event ready = load.record();
  also_after(impl_.others, ready);
  also_after(state_->reads, ready);
  return ready;
}

// Gives back what the spans left, now that the event is known after which it is free.
void KvStore::Impl::Opening::settle(const Event& ready) {
  for (KvRing::Position position : held_) impl_.host_ring().hold(position, ready);
  for (KvPageId id : shared_) also_after(impl_.pages[id].former, ready);
  for (const auto& [id, home] : orphaned_) impl_.free_page(id, home, {ready});
  for (std::int32_t slot : spares_) impl_.host_pool.give_back(slot, {ready});
  for (const Span& span : spans_)
    impl_.sequences.at(span.sequence).layers[static_cast<std::size_t>(layer_)].leased = true;
}

KvStore::Lease KvStore::open(int layer, std::span<const Span> spans) {
  impl_->check_writes();
  if (layer < 0 || layer >= impl_->options.layers)
    throw Error(concat("cannot open KV pages in layer ", layer, " of ", impl_->options.layers));
  return Impl::Opening(*impl_, layer, spans).finish();
}

}  // namespace barge
