#include "kernels/cuda/cuda_stream.h"

#include <memory>
#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_event.h"

namespace barge::cuda {

StreamHandle::StreamHandle() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

StreamHandle::~StreamHandle() {
  cudaStreamSynchronize(stream_);  // a failure has reached whoever waited for an event
  cudaStreamDestroy(stream_);
}

CudaStream::CudaStream(EventPool& events, EventPool& timing)
    : events_(events), meter_(timing, stream_.get()), thread_([this] { loop(); }) {}

CudaStream::~CudaStream() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
}

void CudaStream::wait(const Event& event) {
  if (!event.state()) return;
  push({[this, event] {
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
  push({[this, event] {
          if (!failure_) meter_.end();  // so that who waits finds its seconds
          event->submit(stream_.get(), failure_);
        },
        /*always=*/true});
  return Event(event);
}

void CudaStream::copy(void* to, Tier to_tier, const void* from, Tier from_tier, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  push({[=, this] {
    if (to_tier == from_tier) {
      meter_.end();
      return submit_copy(to, from, bytes);
    }
    const bool down = to_tier == Tier::kDevice;
    meter_.begin(down ? SpanMeter::Kind::kDown : SpanMeter::Kind::kUp);
    submit_copy(to, from, bytes);
    (down ? down_bytes_ : up_bytes_) += bytes;
  }});
}

void CudaStream::submit_copy(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "cudaMemcpyAsync");
}

void CudaStream::call(std::function<void()> work) {
  push({[this, work = std::move(work)] {
    meter_.end();
    const auto before = std::make_shared<CudaEvent>(events_);
    before->submit(stream_.get(), nullptr);
    before->wait();
    work();
  }});
}

void CudaStream::submit(std::function<void(cudaStream_t)> work) {
  push({[this, work = std::move(work)] {
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

bool CudaStream::idle() {
  const std::scoped_lock lock(mutex_);
  return queue_.empty();
}

void CudaStream::loop() {
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;  // stopping, and all work is submitted
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    if (failure_ && !item.always) continue;
    try {
      item.work();
      if (idle()) meter_.end();  // or the time until the next work would count
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
}

}  // namespace barge::cuda
