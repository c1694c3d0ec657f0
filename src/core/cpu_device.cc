#include "core/cpu_device.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/pages.h"
#include "core/waits.h"

namespace barge {
namespace {

// One direction of the emulated link: requests queue up behind each other at a fixed rate.
class Link {
 public:
  explicit Link(double bytes_per_second) : rate_(bytes_per_second) {}

  // Copies, then waits for the moment at which the link would have been done. Sleep is coarse: what
  // it would take too long is made up for by the next copies, which wait less.
  void transfer(void* to, const void* from, std::size_t bytes) {
    using Time = std::chrono::steady_clock::time_point;
    const auto takes = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        Seconds(static_cast<double>(bytes) / rate_));
    Time due;
    {
      const std::scoped_lock lock(mutex_);
      due = free_ = std::max(free_, std::chrono::steady_clock::now()) + takes;
    }
    std::memcpy(to, from, bytes);
    if (due - std::chrono::steady_clock::now() > kShortestSleep) std::this_thread::sleep_until(due);
    bytes_ += bytes;
    microseconds_ += std::llround(Seconds(takes).count() * 1e6);
  }

  std::size_t bytes() const { return bytes_; }
  double seconds() const { return static_cast<double>(microseconds_) * 1e-6; }

 private:
  static constexpr std::chrono::microseconds kShortestSleep{200};

  const double rate_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point free_;  // when all copies so far are through; of mutex_
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<std::int64_t> microseconds_ = 0;
};

class WorkerStream final : public Stream {
 public:
  // `down` and `up` are null on a unified device; they outlive the stream.
  WorkerStream(Link* down, Link* up) : down_(down), up_(up), thread_([this] { loop(); }) {}

  ~WorkerStream() override {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
  }

  void call(std::function<void()> work) override {
    push([this, work = std::move(work)] {
      const auto begin = std::chrono::steady_clock::now();
      work();
      const Seconds took = std::chrono::steady_clock::now() - begin;
      busy_nanoseconds_ += std::llround(took.count() * 1e9);
    });
  }
  double busy_seconds() const { return static_cast<double>(busy_nanoseconds_) * 1e-9; }
  std::map<std::string, double> waits() const { return waits_.seconds(); }

  void wait(const Event& event) override {
    if (event.state()) push([this, event] { waiting_for(event.name(), [&] { event.wait(); }); });
  }

  Event record() override {
    // Shared with the closure: std::function wants what it holds to be copyable.
    auto completion = std::make_shared<Completion>();
    Event event = completion->event();
    push([this, completion] { failure_ ? completion->fail(failure_) : completion->succeed(); },
         /*always=*/true);
    return event;
  }

  void copy(void* to, Tier to_tier, const void* from, Tier from_tier, std::size_t bytes) override {
    Link* link = to_tier == from_tier ? nullptr : to_tier == Tier::kDevice ? down_ : up_;
    push([=] {
      if (link != nullptr)
        link->transfer(to, from, bytes);
      else if (to != from)
        std::memcpy(to, from, bytes);
    });
  }

 private:
  struct Item {
    std::function<void()> work;
    bool always;  // even after a failure
  };

  template <typename Work>
  void waiting_for(const char* what, const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    waits_.add(what, std::chrono::steady_clock::now() - begin);
  }

  void push(std::function<void()> work, bool always = false) {
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back({std::move(work), always});
    }
    changed_.notify_one();
  }

  void loop() {
    for (;;) {
      Item item;
      {
        std::unique_lock lock(mutex_);
        const auto ready = [this] { return stopping_ || !queue_.empty(); };
        if (!ready()) waiting_for("work", [&] { changed_.wait(lock, ready); });
        if (queue_.empty()) return;  // stopping, and all work is done
        item = std::move(queue_.front());
        queue_.pop_front();
      }
      if (failure_ && !item.always) continue;
      try {
        item.work();
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
  }

  Link *down_, *up_;
  std::mutex mutex_;  // guards queue_ and stopping_
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::atomic<std::int64_t> busy_nanoseconds_ = 0;  // of calls
  Waits waits_;
  std::exception_ptr failure_;  // only the thread touches it
  std::jthread thread_;         // last: it uses all of the above
};

std::optional<double> cgroup_processors() {
  double quota = 0, period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period && period > 0)
    return quota / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

}  // namespace

struct CpuDevice::Streams {
  Streams(int threads, double rate)
      : pool(threads),
        down(rate),
        up(rate),
        compute(rate > 0 ? &down : nullptr, rate > 0 ? &up : nullptr),
        load(rate > 0 ? &down : nullptr, rate > 0 ? &up : nullptr),
        store(rate > 0 ? &down : nullptr, rate > 0 ? &up : nullptr) {}

  ThreadPool pool;
  Link down, up;
  WorkerStream compute, load, store;
};

CpuDevice::CpuDevice(Options options, Budgets& budgets)
    : options_(options),
      budgets_(budgets),
      streams_(std::make_unique<Streams>(
          options.threads > 0 ? options.threads : usable_processors(), options.emulate_link)) {}

CpuDevice::~CpuDevice() = default;

std::string CpuDevice::name() const {
  return concat("cpu, ", streams_->pool.threads(), " threads",
                unified() ? std::string()
                          : concat(", emulated link of ", options_.emulate_link / 1e9, " GB/s"));
}

bool CpuDevice::unified() const { return options_.emulate_link <= 0; }
ThreadPool& CpuDevice::pool() { return streams_->pool; }
Stream& CpuDevice::compute() { return streams_->compute; }
Stream& CpuDevice::load() { return streams_->load; }
Stream& CpuDevice::store() { return streams_->store; }

Buffer CpuDevice::allocate(Tier tier, std::size_t bytes, std::string_view tag) {
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), kSectorBytes);
  auto reservation = budgets_[unified() ? Tier::kHost : tier].reserve(whole, tag);
  return {map_pages(whole, tag), whole, std::move(reservation), unmap_pages};
}

LinkTraffic CpuDevice::link_traffic() const {
  return {streams_->down.bytes(), streams_->up.bytes(), streams_->down.seconds(),
          streams_->up.seconds()};
}

double CpuDevice::compute_seconds() const { return streams_->compute.busy_seconds(); }

std::map<std::string, double> CpuDevice::compute_waits() const { return streams_->compute.waits(); }

int usable_processors() {
  cpu_set_t set;
  int count = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = std::max(1, CPU_COUNT(&set));
  if (const auto quota = cgroup_processors())
    count = std::max(1, std::min(count, static_cast<int>(std::ceil(*quota))));
  return count;
}

}  // namespace barge
