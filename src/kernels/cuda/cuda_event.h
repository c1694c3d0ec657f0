#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "core/event.h"
#include "kernels/cuda/event_pool.h"

namespace barge::cuda {

/// A point in the work of a CudaStream. It is first given to the stream's thread, then *submitted*
/// to CUDA (which is when a failure so far is known), then done.
class CudaEvent final : public EventState, public std::enable_shared_from_this<CudaEvent> {
 public:
  explicit CudaEvent(EventPool& pool) : pool_(pool), event_(pool.lend()) {}

  void wait() override;
  bool done() override;
  /// Blocks until the event is submitted.
  Event on_device() override;

  /// For the stream: records the event. `failure` is the stream's up to here, or null.
  void submit(cudaStream_t stream, std::exception_ptr failure) noexcept;
  /// Whether a stream whose events are from `pool` can wait for this one on the device.
  bool is_from(const EventPool& pool) const { return &pool_ == &pool; }
  cudaEvent_t get() const { return event_.get(); }

 private:
  EventPool& pool_;
  const EventPool::Loan event_;
  std::mutex mutex_;  // guards submitted_ and failure_, which change once
  std::condition_variable changed_;
  bool submitted_ = false;
  std::exception_ptr failure_;
};

}  // namespace barge::cuda
