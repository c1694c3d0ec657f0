#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/device.h"
#include "kernels/cuda/copy_batch.h"
#include "kernels/cuda/event_pool.h"
#include "kernels/cuda/mapped_memory.h"
#include "kernels/cuda/span_meter.h"

namespace barge::cuda {

/// Whose blocks run first where several streams' kernels want a multiprocessor. Small copies are
/// kernels (copy_ranges.h), which mustn't wait until a product's thousands of blocks have begun.
enum class StreamPriority : std::uint8_t { kLowest, kHighest };

/// An owned cudaStream_t that doesn't wait for the default stream.
class StreamHandle {
 public:
  explicit StreamHandle(StreamPriority priority);
  ~StreamHandle();
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Work is given to a thread of the stream's own, which submits it to CUDA in order. So a wait for
/// the host's part of an event (a disk read) blocks that thread and nobody else, and whatever fails
/// until then is known before later work is submitted. Waits between streams of one device are the
/// device's own.
///
/// Small copies that follow each other and don't depend on each other are one launch. So they are
/// held back until other work follows or a launch is full: nobody can see that they are done before
/// an event is recorded behind them.
class CudaStream final : public Stream {
 public:
  /// What it is given outlives the stream and its events. `events`: without timing, `timing`: with
  /// it. `mapped`: host memory whose small copies kernels may do.
  CudaStream(EventPool& events, EventPool& timing, const MappedMemory& mapped,
             StreamPriority priority);
  /// Does all that was given first.
  ~CudaStream() override;

  void wait(const Event& event) override;
  [[nodiscard]] Event record() override;
  void copy(void* to, Tier to_tier, const void* from, Tier from_tier, std::size_t bytes) override;
  /// `work` runs on the stream's thread once the device has done all before it; nothing later is
  /// submitted until it returns, so that its failure can skip that. Not for every sweep.
  void call(std::function<void()> work) override;

  /// Calls `work` on the stream's thread to launch kernels: it should only submit.
  void submit(std::function<void(cudaStream_t)> work);

  std::size_t down_bytes() const { return down_bytes_; }
  std::size_t up_bytes() const { return up_bytes_; }
  /// Seconds of copies each way and of kernels, of all runs of them that are over.
  SpanMeter::Seconds busy_seconds() { return meter_.seconds(); }

 private:
  struct Item {
    std::function<void()> work;       // or:
    std::optional<CopyBatch> copies;  // while it is the queue's last, more may come
    bool always = false;              // even after a failure
  };

  void push(Item item);
  void push_small(Tier to_tier, Tier from_tier, const CopyRange& range);
  void loop();
  bool ready() const;  // under mutex_: whether there is work, and not only a batch that may grow
  bool idle();
  void submit_copies(Tier to_tier, Tier from_tier, std::span<const CopyRange> ranges);

  EventPool& events_;
  const MappedMemory& mapped_;
  const StreamHandle stream_;
  SpanMeter meter_;
  std::atomic<std::size_t> down_bytes_ = 0, up_bytes_ = 0;
  std::mutex mutex_;  // guards queue_ and stopping_
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::exception_ptr failure_;  // only the thread touches it
  std::jthread thread_;         // last: it uses all of the above
};

}  // namespace barge::cuda
