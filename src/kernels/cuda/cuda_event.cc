#include "kernels/cuda/cuda_event.h"

#include <utility>

#include "kernels/cuda/check.h"

namespace barge::cuda {

void CudaEvent::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return submitted_; });
  lock.unlock();  // nothing changes any more
  const cudaError_t result = cudaEventSynchronize(event_.get());
  // Only now: what was submitted before the failure may still be running, in buffers that whoever
  // hears of the failure gives back.
  if (failure_) std::rethrow_exception(failure_);
  check(result, "cudaEventSynchronize");
}

bool CudaEvent::done() {
  const std::scoped_lock lock(mutex_);
  return submitted_ && cudaEventQuery(event_.get()) != cudaErrorNotReady;
}

Event CudaEvent::on_device() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return submitted_; });
  if (failure_) std::rethrow_exception(failure_);
  return Event(shared_from_this());
}

void CudaEvent::submit(cudaStream_t stream, std::exception_ptr failure) noexcept {
  try {
    check(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  {
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(failure);
    submitted_ = true;
  }
  changed_.notify_all();
}

}  // namespace barge::cuda
