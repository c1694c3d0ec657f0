#include "offload/kv_store.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/kv_store_impl.h"

namespace barge {
namespace {

PerTier<double> merged(PerTier<double> share, bool unified) {
  if (unified) share.host += std::exchange(share.device, 0);
  return share;
}

std::vector<Tier> merged(std::vector<Tier> homes, bool unified) {
  if (unified) std::replace(homes.begin(), homes.end(), Tier::kDevice, Tier::kHost);
  return homes;
}

}  // namespace

KvStore::Lease::Lease() = default;
KvStore::Lease::Lease(Lease&& other) noexcept = default;
KvStore::Lease& KvStore::Lease::operator=(Lease&& other) noexcept = default;
KvStore::Lease::~Lease() = default;

std::span<std::byte* const> KvStore::Lease::pages(std::size_t i) const {
  const std::size_t begin = state_->first.at(i), end = state_->first.at(i + 1);
  return std::span(state_->addresses).subspan(begin, end - begin);
}

KvStore::KvStore(const Options& options, Device& device, Disk& disk, MemoryBudget& disk_budget)
    : impl_(std::make_unique<Impl>(options, device, disk, disk_budget)) {}

KvStore::~KvStore() = default;

KvStore::Placement KvStore::place(int max_positions) const {
  Placement homes = impl_->placement.choose(max_positions);
  // A sequence that is longer than its shares of memory have room for goes to disk, layer by layer.
  for (std::size_t layer = homes.size(); layer-- > 0 && impl_->capacity.disk > 0;) {
    const PerTier<std::size_t> wanted = bytes(homes, max_positions);
    if (wanted.device <= impl_->capacity.device && wanted.host <= impl_->capacity.host) break;
    homes[layer] = Tier::kDisk;
  }
  return homes;
}

PerTier<std::size_t> KvStore::bytes(const Placement& placement, int positions) const {
  // A page that fills was a tail on the way.
  return impl_->bytes(placement, positions, /*tail=*/positions > 0 && impl_->page_positions > 1);
}

PerTier<std::size_t> KvStore::bytes_at_rest(const Placement& placement, int positions) const {
  return impl_->bytes(placement, positions, /*tail=*/positions % impl_->page_positions != 0);
}

PerTier<std::size_t> KvStore::Impl::bytes(const Placement& homes, int positions, bool tail) const {
  const auto n = static_cast<std::size_t>(std::max(positions, 0));
  const auto per_page = static_cast<std::size_t>(page_positions);
  PerTier<std::size_t> held;
  for (Tier home : merged(homes, unified)) {
    if (home != Tier::kDisk) {
      held[home] += divide_up(n, per_page);
      continue;
    }
    held.disk += n / per_page;
    if (tail) ++held.host;
  }
  for (Tier tier : kTiers) held[tier] *= page_bytes;
  return held;
}

const PerTier<std::size_t>& KvStore::capacity() const { return impl_->capacity; }

KvStore::SequenceId KvStore::add(const Placement& placement, int max_positions) {
  if (placement.size() != static_cast<std::size_t>(impl_->options.layers) || max_positions <= 0)
    throw Error(concat("cannot add a sequence with homes for ", placement.size(), " layers and ",
                       max_positions, " positions to a KV cache of ", impl_->options.layers,
                       " layers"));
  KvSequence sequence{.homes = merged(placement, impl_->unified), .max_positions = max_positions};
  sequence.layers.resize(placement.size());
  impl_->placement.add(sequence.homes, max_positions);
  impl_->sequences.emplace(++impl_->last_sequence, std::move(sequence));
  return impl_->last_sequence;
}

void KvStore::remove(SequenceId id) {
  KvSequence& sequence = impl_->sequence(id, "remove");
  for (const KvLayer& layer : sequence.layers)
    if (layer.leased)
      throw Error(concat("cannot remove KV sequence ", id, ": a lease of its pages is still open"));
  for (std::size_t i = 0; i < sequence.layers.size(); ++i) {
    KvLayer& layer = sequence.layers[i];
    for (KvPageId page : layer.pages) impl_->leave(page, sequence.homes[i], layer.after);
    impl_->disk_slots.close_run(layer.run);
  }
  impl_->placement.remove(sequence.homes, sequence.max_positions);
  impl_->sequences.erase(id);
  if (!impl_->failure_told) impl_->check_writes();
}

std::size_t KvStore::staging_needed(std::span<const Span> spans) const {
  std::size_t worst = 0;
  for (int layer = 0; layer < impl_->options.layers; ++layer) {
    Impl::Staging sum;
    for (const Span& span : spans) {
      const KvSequence& sequence = impl_->sequence(span.sequence, "stage pages of");
      const auto one = impl_->staging(layer, sequence.homes[static_cast<std::size_t>(layer)], span);
      sum.device += one.device;
      sum.host += one.host;
    }
    worst = std::max({worst, sum.device, sum.host});
  }
  return worst * impl_->page_bytes;
}

bool KvStore::attends_on_host(int layer) const {
  return impl_->by_host(layer, {.generated = true});
}

PerTier<std::size_t> KvStore::bytes_held() const {
  return {impl_->device_pool.held_bytes(), impl_->host_pool.held_bytes(),
          impl_->disk_slots.held_bytes()};
}

PerTier<std::size_t> KvStore::peak_bytes_held() const {
  return {impl_->device_pool.peak_bytes(), impl_->host_pool.peak_bytes(),
          impl_->disk_slots.peak_bytes()};
}

KvTraffic KvStore::traffic() const { return impl_->traffic; }

KvStore::Impl::Impl(const Options& given, Device& on, Disk& queue, MemoryBudget& disk_budget)
    : options(given),
      device(on),
      disk(queue),
      unified(on.unified()),
      record_bytes(given.format.record_bytes()),
      page_bytes(
          round_up(static_cast<std::size_t>(std::max(given.page_positions, 1)) * record_bytes,
                   kSectorBytes)),
      page_positions(given.page_positions),
      host_pool(on, Tier::kHost,
                given.capacity_bytes.host + (unified ? given.capacity_bytes.device : 0),
                page_bytes),
      device_pool(on, Tier::kDevice, unified ? 0 : given.capacity_bytes.device, page_bytes),
      device_ring(on, unified ? Tier::kHost : Tier::kDevice, given.staging_bytes, page_bytes,
                  unified ? &queue : nullptr),
      disk_slots(static_cast<std::int64_t>(given.capacity_bytes.disk / page_bytes +
                                           given.swap_bytes / page_bytes),
                 page_bytes),
      placement(
          merged(given.share, unified), given.layers,
          given.attending_host != nullptr ? std::optional(given.device_layers) : std::nullopt) {
  if (given.layers <= 0 || given.page_positions <= 0 || record_bytes == 0)
    throw ConfigError(concat("a KV cache of ", given.layers, " layers with ", given.page_positions,
                             " positions a page of ", record_bytes,
                             " bytes each can't be; all must be above 0"));
  if (!unified)
    discrete_host_ring.emplace(on, Tier::kHost, given.host_staging_bytes, page_bytes, &queue);
  capacity = {device_pool.capacity_bytes(), host_pool.capacity_bytes(),
              given.capacity_bytes.disk / page_bytes * page_bytes};
  if (disk_slots.capacity_bytes() > 0) {
    disk_reservation = disk_budget.reserve(disk_slots.capacity_bytes(), "kv cache");
    file.emplace(DiskFile::scratch(given.disk_directory));
  }
}

// What is under way reads and writes our memory.
KvStore::Impl::~Impl() {
  wait_until_over(writes);
  wait_until_over(others);
  device_ring.drain();
  if (discrete_host_ring) discrete_host_ring->drain();
}

KvSequence& KvStore::Impl::sequence(SequenceId id, const char* what) {
  const auto it = sequences.find(id);
  if (it == sequences.end())
    throw Error(concat("cannot ", what, " KV sequence ", id, ": there is none of that number"));
  return it->second;
}

KvStore::Impl::Staging KvStore::Impl::staging(int layer, Tier home, const Span& span) const {
  if (home == Tier::kDevice) return {};
  const auto end = static_cast<std::size_t>(span.first_position + span.rows);
  const auto per_page = static_cast<std::size_t>(page_positions);
  const std::size_t pages = divide_up(end, per_page);
  const std::size_t on_disk = home == Tier::kDisk ? end / per_page : 0;
  return {.host = on_disk, .device = unified || by_host(layer, span) ? 0 : pages};
}

void KvStore::Impl::check_writes() {
  std::erase_if(writes, [this](const Event& event) {
    if (!event.done()) return false;
    try {
      event.wait();
    } catch (...) {
      if (!write_failure) write_failure = std::current_exception();
    }
    return true;
  });
  constexpr std::size_t kMany = 64;
  if (others.size() > kMany) drop_done(others);
  if (!write_failure) return;
  failure_told = true;
  std::rethrow_exception(write_failure);
}

const std::byte* KvStore::Impl::still_staged(KvPage& page) {
  if (!page.written.done() && host_ring().holds(page.staged)) return host_ring().at(page.staged);
  page.written.wait();
  page.written = {};
  return nullptr;
}

void KvStore::Impl::leave(KvPageId id, Tier home, const Events& after) {
  if (--pages[id].owners == 0) return free_page(id, home, after);
  drop_done(pages[id].former);
  also_after(pages[id].former, after);
}

void KvStore::Impl::free_page(KvPageId id, Tier home, const Events& after) {
  KvPage& page = pages[id];
  Events users = std::move(page.former);
  also_after(users, after);
  drop_done(users);
  if (page.pool_slot >= 0) pool(home).give_back(page.pool_slot, users);
  if (page.disk_slot >= 0) {
    also_after(users, page.written);
    disk_slots.give_back(page.disk_slot, std::move(users));
  }
  pages.destroy(id);
}

Event KvStore::Impl::read(const Extent& extent) {
  const std::size_t bytes = extent.pages * page_bytes;
  Event event = disk.read(*file, static_cast<std::uint64_t>(extent.slot) * page_bytes,
                          {extent.memory, bytes}, IoPriority::kKvRead);
  traffic.disk_read_bytes += bytes;
  also_after(others, event);
  return event;
}

Event KvStore::Impl::write(const Extent& extent, const Event& after) {
  const std::size_t bytes = extent.pages * page_bytes;
  Event event = disk.write(*file, static_cast<std::uint64_t>(extent.slot) * page_bytes,
                           {extent.memory, bytes}, after);
  traffic.disk_written_bytes += bytes;
  writes.push_back(event);
  return event;
}

Events KvStore::Impl::write_pages(const std::vector<KvPageId>& ids,
                                  const std::vector<std::byte*>& from, const Event& after) {
  Events events;
  for (std::size_t i = 0; i < ids.size();) {
    Extent extent{pages[ids[i]].disk_slot, from[i], 1};
    std::size_t end = i + 1;
    while (end < ids.size() &&
           extent.extended_by(pages[ids[end]].disk_slot, from[end], page_bytes)) {
      ++extent.pages;
      ++end;
    }
    events.push_back(write(extent, after));
    for (; i < end; ++i) pages[ids[i]].written = events.back();
  }
  return events;
}

void KvStore::Impl::copy(Stream& stream, std::byte* to, Tier to_tier, const std::byte* from,
                         Tier from_tier, std::size_t bytes) {
  stream.copy(to, to_tier, from, from_tier, bytes);
  if (to_tier == from_tier) return;
  (to_tier == Tier::kDevice ? traffic.link_down_bytes : traffic.link_up_bytes) += bytes;
}

}  // namespace barge
