#include "offload/disk_gate.h"

namespace barge {

DiskGate::DiskGate(std::function<void(std::unique_ptr<DiskRequest>)> pass)
    : pass_(std::move(pass)), thread_([this] { run(); }) {}

DiskGate::~DiskGate() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void DiskGate::hold_back(Event after, std::unique_ptr<DiskRequest> request) {
  {
    const std::scoped_lock lock(mutex_);
    held_.emplace_back(std::move(after), std::move(request));
  }
  changed_.notify_one();
}

void DiskGate::run() {
  for (;;) {
    std::pair<Event, std::unique_ptr<DiskRequest>> held;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !held_.empty(); });
      if (held_.empty()) return;
      held = std::move(held_.front());
      held_.pop_front();
    }
    try {
      held.first.wait();
    } catch (...) {
      held.second->failure = std::current_exception();
    }
    pass_(std::move(held.second));
  }
}

}  // namespace barge
