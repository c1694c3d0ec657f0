#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "core/device.h"
#include "kernels/cuda/event_pool.h"
#include "kernels/cuda/span_meter.h"

namespace barge::cuda {

/// An owned cudaStream_t that doesn't wait for the default stream.
class StreamHandle {
 public:
  StreamHandle();
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
class CudaStream final : public Stream {
 public:
  /// The pools outlive the stream and its events. `events`: without timing, `timing`: with it.
  CudaStream(EventPool& events, EventPool& timing);
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
    std::function<void()> work;
    bool always = false;  // even after a failure
  };

  void push(Item item);
  void loop();
  bool idle();
  void submit_copy(void* to, const void* from, std::size_t bytes);

  EventPool& events_;
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
