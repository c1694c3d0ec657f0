#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/clock.h"
#include "core/event.h"
#include "core/memory_budget.h"
#include "core/tier.h"

namespace barge {

/// An owned piece of device or host memory, aligned to 4096 bytes and counted in a budget; host
/// memory is pinned where the device copies by itself. Move-only.
class Buffer {
 public:
  using Free = std::function<void(std::byte*, std::size_t)>;

  Buffer() = default;
  Buffer(std::byte* data, std::size_t bytes, MemoryBudget::Reservation reservation, Free free)
      : data_(data), bytes_(bytes), reservation_(std::move(reservation)), free_(std::move(free)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) free_(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(reservation_, other.reservation_);
    std::swap(free_, other.free_);
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryBudget::Reservation reservation_;
  Free free_;
};

/// Work of a device, done in the order in which it was given. Giving work never blocks on its
/// execution. The first failure ends a stream: later work is skipped, and every event recorded
/// afterwards carries that failure. Thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Later work of this stream begins after `event`, and fails if it failed.
  virtual void wait(const Event& event) = 0;
  /// Done when all work given so far is.
  [[nodiscard]] virtual Event record() = 0;
  /// Copies between host and device memory (either way) or within one of them; both ranges must
  /// stay valid until an event recorded afterwards is done. The bytes count as traffic of the link
  /// when `from_tier` and `to_tier` differ and the device isn't unified.
  virtual void copy(void* to, Tier to_tier, const void* from, Tier from_tier,
                    std::size_t bytes) = 0;
  /// Calls `work` on a thread of the host, in order with the stream's work. Kernels of the CPU are
  /// made of this.
  virtual void call(std::function<void()> work) = 0;
};

/// Bytes that crossed the link since the start, and the seconds that the copies took.
struct LinkTraffic {
  std::size_t down_bytes = 0, up_bytes = 0;  // down: host to device
  double down_seconds = 0, up_seconds = 0;
};

/// One accelerator (or the CPU in that role): memory, three streams, copies, a clock.
/// Thread-safe. Must outlive its buffers and events.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;
  /// Device memory is host memory: nothing is copied, and all allocations count as host's.
  virtual bool unified() const = 0;
  /// `tier` is kDevice or kHost. Throws OutOfMemory if the budget or the system refuses.
  [[nodiscard]] virtual Buffer allocate(Tier tier, std::size_t bytes, std::string_view tag) = 0;

  virtual Stream& compute() = 0;  // kernels
  virtual Stream& load() = 0;     // host to device
  virtual Stream& store() = 0;    // device to host
  virtual const Clock& clock() const = 0;
  virtual LinkTraffic link_traffic() const = 0;
  /// Seconds since the start in which the compute stream worked rather than waited.
  virtual double compute_seconds() const = 0;
  /// Seconds since the start in which it waited, by the events' names, "work" where it had been
  /// given none; empty for a device that can't tell.
  virtual std::map<std::string, double> compute_waits() const { return {}; }
};

}  // namespace barge
