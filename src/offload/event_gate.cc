#include "offload/event_gate.h"

namespace barge {

EventGate::EventGate() : thread_([this] { run(); }) {}

EventGate::~EventGate() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void EventGate::call_after(Event event, Work work) {
  {
    const std::scoped_lock lock(mutex_);
    held_.emplace_back(std::move(event), std::move(work));
  }
  changed_.notify_one();
}

void EventGate::run() {
  for (;;) {
    std::pair<Event, Work> held;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !held_.empty(); });
      if (held_.empty()) return;
      held = std::move(held_.front());
      held_.pop_front();
    }
    std::exception_ptr failure;
    try {
      held.first.wait();
    } catch (...) {
      failure = std::current_exception();
    }
    held.second(failure);
  }
}

}  // namespace barge
