#include "kernels/cuda/cuda_stream.h"

#include <memory>
#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/cuda/copy_ranges.h"
#include "kernels/cuda/cuda_event.h"

namespace barge::cuda {

StreamHandle::StreamHandle(StreamPriority priority) {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     priority == StreamPriority::kHighest ? highest : lowest),
        "cudaStreamCreateWithPriority");
}

StreamHandle::~StreamHandle() {
  cudaStreamSynchronize(stream_);  // a failure has reached whoever waited for an event
  cudaStreamDestroy(stream_);
}

CudaStream::CudaStream(EventPool& events, EventPool& timing, const MappedMemory& mapped,
                       StreamPriority priority)
    : events_(events),
      mapped_(mapped),
      stream_(priority),
      meter_(timing, stream_.get()),
      thread_([this] { loop(); }) {}

CudaStream::~CudaStream() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void CudaStream::wait(const Event& event) {
  if (!event.state()) return;
  push({.work = [this, event] {
    const Event there = event.on_device();
    if (!there.state()) return;
    const auto own = std::dynamic_pointer_cast<CudaEvent>(there.state());
    if (own == nullptr || !own->is_from(events_)) return there.wait();  // another device's
    meter_.end();
    check(cudaStreamWaitEvent(stream_.get(), own->get(), 0), "cudaStreamWaitEvent");
  }});
}

Event CudaStream::record() {
  const auto event = std::make_shared<CudaEvent>(events_);
  push({.work =
            [this, event] {
              if (!failure_) meter_.end();  // so that who waits finds its seconds
              event->submit(stream_.get(), failure_);
            },
        .always = true});
  return Event(event);
}

void CudaStream::copy(void* to, Tier to_tier, const void* from, Tier from_tier, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  const CopyRange range{to, from, bytes};
  const auto reachable = [&](Tier tier, const void* data) {
    return tier == Tier::kDevice || mapped_.contains(data, bytes);
  };
  const bool within_host =
      to_tier == Tier::kHost && from_tier == Tier::kHost;  // the CPU's own work
  if (!within_host && suits_kernel(range) && reachable(to_tier, to) && reachable(from_tier, from))
    return push_small(to_tier, from_tier, range);
  push({.work = [=, this] { submit_copies(to_tier, from_tier, {&range, 1}); }});
}

void CudaStream::push_small(Tier to_tier, Tier from_tier, const CopyRange& range) {
  bool wake;
  {
    const std::scoped_lock lock(mutex_);
    const auto goes_along = [&] {
      std::optional<CopyBatch>& last = queue_.back().copies;
      return last && last->add(to_tier, from_tier, range);
    };
    if (queue_.empty() || !goes_along()) {
      queue_.push_back({.copies = CopyBatch(to_tier, from_tier)});
      queue_.back().copies->add(to_tier, from_tier, range);
    }
    wake = ready();
  }
  if (wake) changed_.notify_one();
}

void CudaStream::submit_copies(Tier to_tier, Tier from_tier, std::span<const CopyRange> ranges) {
  const bool down = to_tier == Tier::kDevice, crosses = to_tier != from_tier;
  if (crosses)
    meter_.begin(down ? SpanMeter::Kind::kDown : SpanMeter::Kind::kUp);
  else
    meter_.end();
  if (ranges.size() == 1)
    check(cudaMemcpyAsync(ranges[0].to, ranges[0].from, ranges[0].bytes, cudaMemcpyDefault,
                          stream_.get()),
          "cudaMemcpyAsync");
  else
    copy_ranges(stream_.get(), ranges);
  if (!crosses) return;
  for (const CopyRange& range : ranges) (down ? down_bytes_ : up_bytes_) += range.bytes;
}

void CudaStream::call(std::function<void()> work) {
  push({.work = [this, work = std::move(work)] {
    meter_.end();
    const auto before = std::make_shared<CudaEvent>(events_);
    before->submit(stream_.get(), nullptr);
    before->wait();
    work();
  }});
}

void CudaStream::submit(std::function<void(cudaStream_t)> work) {
  push({.work = [this, work = std::move(work)] {
    meter_.begin(SpanMeter::Kind::kCompute);
    work(stream_.get());
  }});
}

void CudaStream::push(Item item) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(item));
  }
  changed_.notify_one();
}

bool CudaStream::ready() const {
  const auto may_grow = [](const Item& item) { return item.copies && !item.copies->full(); };
  return queue_.size() > 1 || (queue_.size() == 1 && !may_grow(queue_.front()));
}

bool CudaStream::idle() {
  const std::scoped_lock lock(mutex_);
  return !ready();
}

void CudaStream::loop() {
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || ready(); });
      if (queue_.empty()) return;  // stopping, and all work is submitted
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    if (failure_ && !item.always) continue;
    try {
      if (item.copies)
        submit_copies(item.copies->to_tier(), item.copies->from_tier(), item.copies->ranges());
      else
        item.work();
      if (idle()) meter_.end();  // or the time until the next work would count
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
}

}  // namespace barge::cuda
