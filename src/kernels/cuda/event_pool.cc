#include "kernels/cuda/event_pool.h"

#include "kernels/cuda/check.h"

namespace barge::cuda {
namespace {
constexpr std::size_t kMadeAtOnce = 64;  // where the pool runs dry
}  // namespace

EventPool::EventPool(unsigned flags, std::size_t count) : flags_(flags) { make(count); }

EventPool::~EventPool() {
  for (cudaEvent_t event : all_) cudaEventDestroy(event);
}

EventPool::Loan EventPool::lend() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) make(kMadeAtOnce);
  const cudaEvent_t event = free_.back();
  free_.pop_back();
  return {this, event};
}

std::size_t EventPool::made() const {
  const std::scoped_lock lock(mutex_);
  return all_.size();
}

void EventPool::make(std::size_t count) {
  all_.reserve(all_.size() + count);
  free_.reserve(all_.size() + count);
  for (std::size_t i = 0; i < count; ++i) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreateWithFlags");
    all_.push_back(event);
    free_.push_back(event);
  }
}

void EventPool::give_back(cudaEvent_t event) noexcept {
  const std::scoped_lock lock(mutex_);
  free_.push_back(event);
}

}  // namespace barge::cuda
