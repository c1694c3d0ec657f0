#include "kernels/cuda/span_meter.h"

#include <utility>

#include "kernels/cuda/check.h"

namespace barge::cuda {

void SpanMeter::begin(Kind kind) {
  if (open_ && kind == kind_) return;
  end();
  EventPool::Loan first = timing_.lend();
  check(cudaEventRecord(first.get(), stream_), "cudaEventRecord");
  first_ = std::move(first);
  kind_ = kind;
  open_ = true;
}

void SpanMeter::end() {
  if (!std::exchange(open_, false)) return;
  EventPool::Loan last = timing_.lend();
  check(cudaEventRecord(last.get(), stream_), "cudaEventRecord");
  const std::scoped_lock lock(mutex_);
  ended_.push_back({kind_, std::move(first_), std::move(last)});
  harvest();
}

SpanMeter::Seconds SpanMeter::seconds() {
  const std::scoped_lock lock(mutex_);
  harvest();
  return seconds_;
}

void SpanMeter::harvest() {
  // In the order of the stream: behind the first that isn't over, none is.
  while (!ended_.empty() && cudaEventQuery(ended_.front().last.get()) == cudaSuccess) {
    const Span& span = ended_.front();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, span.first.get(), span.last.get()),
          "cudaEventElapsedTime");
    seconds_[static_cast<std::size_t>(span.kind)] += milliseconds * 1e-3;
    ended_.pop_front();
  }
}

}  // namespace barge::cuda
