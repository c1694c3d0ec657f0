#include "offload/weight_store.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/byte_ring.h"
#include "offload/disk_registration.h"
#include "offload/panel_reader.h"
#include "offload/table_lookup.h"
#include "offload/weight_plan.h"
#include "offload/weight_shares.h"

namespace barge {
namespace {

constexpr std::size_t kLoadsAtOnce = 8;  // runs under way while the homes are filled

}  // namespace

class WeightStore::Impl {
 public:
  Impl(const Pack& pack, std::span<const int> visits, const std::vector<std::vector<Tier>>& homes,
       Device& device, Disk& disk, const Options& options,
       const std::function<void(std::size_t, std::size_t)>& progress)
      : pack_(pack),
        device_(device),
        disk_(disk),
        shares_(share_weight_memory(pack, homes, device.unified(), options.ring_bytes,
                                    options.staging_bytes)),
        plan_(plan_weights(pack, visits, homes, device.unified(), shares_.run)),
        host_(memory(Tier::kHost, plan_.memory_bytes.host, "weights")),
        on_device_(memory(Tier::kDevice, plan_.memory_bytes.device, "weights")),
        ring_memory_(memory(Tier::kDevice,
                            device.unified() ? shares_.ring + shares_.lookup : shares_.ring,
                            "weight ring")),
        staging_memory_(memory(Tier::kHost, device.unified() ? 0 : shares_.staging + shares_.lookup,
                               "weight staging")),
        addresses_(addresses()),
        registration_(disk, disk_memory()),
        reader_(pack, disk, device,
                device.unified() ? std::span<std::byte>{} : disk_memory().first(shares_.staging)),
        lookup_(pack, plan_, addresses_, device, reader_, disk_memory().last(shares_.lookup)),
        ring_(shares_.ring) {
    for (std::size_t i = 0; i < plan_.runs.size(); ++i)
      if (plan_.runs[i].streamed) streamed_.push_back(i);
    load(progress);
    const std::scoped_lock lock(mutex_);
    prefetch();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    Event comes_back;
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      comes_back = comes_back_;
    }
    comes_back.wait();
    for (; ring_.oldest_released(); ring_.drop_oldest()) wait_quietly(ring_.oldest_reader());
  }

  Run next() {
    if (plan_.runs.empty()) throw Error("a weight store without visits has no next run");
    const WeightPlan::Run& planned = plan_.runs[next_run_];
    Fetched fetched;
    if (planned.streamed) fetched = take_fetched();
    next_run_ = (next_run_ + 1) % plan_.runs.size();

    const PanelRange& range = planned.panels;
    const auto t = static_cast<std::size_t>(range.tensor);
    const PackTensor& tensor = pack_.tensors()[t];
    Run run;
    run.tensor = range.tensor;
    run.first_row = tensor.panels[range.first].first_row;
    run.ticket_ = fetched.ticket;
    run.ready = std::move(fetched.ready);
    const std::byte* at = ring_memory_.data() + fetched.offset;
    for (std::size_t p = range.first; p < range.first + range.count; ++p) {
      const PackPanel& panel = tensor.panels[p];
      run.panels.push_back({planned.streamed ? at : addresses_[t][p], panel.layout});
      at += panel.stored_bytes();
    }
    return run;
  }

  void release(Run run, Event last_reader) {
    if (run.ticket_ < 0) return;
    const std::scoped_lock lock(mutex_);
    ring_.release(run.ticket_, std::move(last_reader));
    prefetch();
  }

  const float* vector(int tensor) const {
    const auto t = static_cast<std::size_t>(tensor);
    if (t >= pack_.tensors().size() || pack_.tensors()[t].kind != PackTensor::Kind::kVector)
      throw Error(concat("tensor ", tensor, " is no vector"));
    return reinterpret_cast<const float*>(addresses_[t].front());
  }

  Event lookup(int tensor, std::span<const std::int32_t> ids, std::byte* to) {
    return lookup_.gather(tensor, ids, to);
  }

  PerTier<std::size_t> bytes_at_home() const { return plan_.at_home; }

  WeightTraffic traffic() const {
    return {.disk_bytes = reader_.disk_bytes(), .link_bytes = reader_.link_bytes()};
  }

 private:
  struct Fetched {
    std::int64_t ticket = -1;
    std::size_t offset = 0;
    Event ready;
  };

  Buffer memory(Tier tier, std::size_t bytes, std::string_view tag) {
    return bytes == 0 ? Buffer() : device_.allocate(tier, bytes, tag);
  }

  // What disk reads end in again and again; its end is the look-ups'.
  std::span<std::byte> disk_memory() const {
    return device_.unified() ? std::span(ring_memory_.data(), shares_.ring + shares_.lookup)
                             : std::span(staging_memory_.data(), shares_.staging + shares_.lookup);
  }

  std::vector<std::vector<std::byte*>> addresses() const {
    std::vector<std::vector<std::byte*>> addresses;
    for (std::size_t t = 0; t < plan_.homes.size(); ++t) {
      auto& panels = addresses.emplace_back();
      for (std::size_t p = 0; p < plan_.homes[t].size(); ++p) {
        const Tier home = plan_.homes[t][p];
        panels.push_back(home == Tier::kDisk ? nullptr
                                             : (home == Tier::kHost ? host_ : on_device_).data() +
                                                   plan_.offsets[t][p]);
      }
    }
    return addresses;
  }

  // Fills the homes in memory, a few reads at once, straight into place where that is host memory.
  void load(const std::function<void(std::size_t, std::size_t)>& progress) {
    const std::size_t total = plan_.memory_bytes.host + plan_.memory_bytes.device;
    std::size_t done = 0;
    std::deque<std::pair<Event, std::size_t>> under_way;
    const auto end_oldest = [&] {
      under_way.front().first.wait();
      done += under_way.front().second;
      under_way.pop_front();
      if (progress) progress(done, total);
    };
    try {
      for (const PanelRange& range : plan_.loads) {
        if (under_way.size() == kLoadsAtOnce) end_oldest();
        const auto t = static_cast<std::size_t>(range.tensor);
        std::byte* const to = addresses_[t][range.first];
        under_way.emplace_back(plan_.homes[t][range.first] == Tier::kHost
                                   ? reader_.read(range, to, IoPriority::kWeightRead)
                                   : reader_.read_to_device(range, to),
                               stored_bytes(pack_, range));
      }
      while (!under_way.empty()) end_oldest();
    } catch (...) {
      for (const auto& [event, bytes] : under_way) wait_quietly(event);
      throw;
    }
  }

  // Begins to fetch the streamed runs of one sweep after the other, as far as memory allows; where
  // it is still in use, comes back when it may be free. Under mutex_, as all below.
  void prefetch() {
    if (streamed_.empty() || comes_back_.state()) return;
    try {
      while (!stopping_ && !failure_) {
        const WeightPlan::Run& run = plan_.runs[streamed_[next_fetched_]];
        if (!space_) space_ = ring_.try_take(run.bytes);
        if (!space_) {
          if (!ring_.oldest_released()) return;  // then `release` comes back
          // What was released unread may still be on its way.
          for (const Event& user : {ring_.oldest_reader(), arrivals_.front()})
            if (!user.done()) return come_back_after(user);
          ring_.oldest_reader().wait();  // throws its failure
          ring_.drop_oldest();
          arrivals_.pop_front();
        } else if (const auto ready = fetch(run, ring_memory_.data() + space_->offset)) {
          arrivals_.push_back(*ready);
          fetched_.push_back({space_->ticket, space_->offset, *ready});
          space_.reset();
          next_fetched_ = (next_fetched_ + 1) % streamed_.size();
        } else {
          return come_back_after(reader_.oldest_staged());
        }
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  // Nothing where staging is full of earlier reads.
  std::optional<Event> fetch(const WeightPlan::Run& run, std::byte* to) {
    if (run.home == Tier::kDisk) return reader_.try_read_to_device(run.panels, to);
    const auto t = static_cast<std::size_t>(run.panels.tensor);
    return reader_.send_to_device(addresses_[t][run.panels.first], run.bytes, to);
  }

  void come_back_after(const Event& event) {
    const auto back = std::make_shared<Completion>();  // std::function copies what it holds
    comes_back_ = back->event();
    disk_.call_after(event, [this, back] {
      {
        const std::scoped_lock lock(mutex_);
        comes_back_ = {};
        prefetch();
      }
      back->succeed();
    });
  }

  Fetched take_fetched() {
    std::unique_lock lock(mutex_);
    while (fetched_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      const Event comes_back = comes_back_;
      if (!comes_back.state())  // only the caller could release what is in the way, and it is here
        throw ConfigError(concat("the weight ring of ", format_bytes(ring_.capacity()),
                                 " can't hold one more run beside those in use; give it more "
                                 "memory"));
      lock.unlock();
      comes_back.wait();
      lock.lock();
    }
    Fetched fetched = std::move(fetched_.front());
    fetched_.pop_front();
    return fetched;
  }

  const Pack& pack_;
  Device& device_;
  Disk& disk_;
  const WeightShares shares_;
  const WeightPlan plan_;
  const Buffer host_, on_device_, ring_memory_, staging_memory_;
  const std::vector<std::vector<std::byte*>> addresses_;
  const DiskRegistration registration_;
  PanelReader reader_;
  TableLookup lookup_;
  std::vector<std::size_t> streamed_;  // of plan_.runs
  std::size_t next_run_ = 0;           // of plan_.runs, for `next`

  mutable std::mutex mutex_;  // guards what follows
  ByteRing ring_;
  std::deque<Event> arrivals_;            // of the ring's pieces, oldest first
  std::deque<Fetched> fetched_;           // in the order of streamed_, for `next`
  std::size_t next_fetched_ = 0;          // of streamed_
  std::optional<ByteRing::Space> space_;  // of the next run, that waits for staging
  Event comes_back_;                      // when the prefetch does; none: it needs no waiting
  std::exception_ptr failure_;            // of the prefetch
  bool stopping_ = false;
};

std::size_t WeightStore::smallest_ring_bytes(const Pack& pack) {
  return smallest_weight_ring(pack);
}

WeightStore::WeightStore(const Pack& pack, std::span<const int> visits,
                         const std::vector<std::vector<Tier>>& homes, Device& device, Disk& disk,
                         const Options& options,
                         const std::function<void(std::size_t, std::size_t)>& progress)
    : impl_(std::make_unique<Impl>(pack, visits, homes, device, disk, options, progress)) {}
WeightStore::~WeightStore() = default;

WeightStore::Run WeightStore::next() { return impl_->next(); }
void WeightStore::release(Run run, Event last_reader) {
  impl_->release(std::move(run), std::move(last_reader));
}
const float* WeightStore::vector(int tensor) const { return impl_->vector(tensor); }
Event WeightStore::lookup(int tensor, std::span<const std::int32_t> ids, std::byte* to) {
  return impl_->lookup(tensor, ids, to);
}
PerTier<std::size_t> WeightStore::bytes_at_home() const { return impl_->bytes_at_home(); }
WeightTraffic WeightStore::traffic() const { return impl_->traffic(); }

}  // namespace barge
