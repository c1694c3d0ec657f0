#include "core/event.h"

#include <condition_variable>
#include <mutex>

#include "core/errors.h"

namespace barge {

namespace {

thread_local const std::function<void()>* while_waiting = nullptr;

}  // namespace

WhileWaiting::WhileWaiting(std::function<void()> step) : step_(std::move(step)) {
  if (while_waiting != nullptr) throw Error("this thread has something to do while it waits");
  while_waiting = &step_;
}

WhileWaiting::~WhileWaiting() { while_waiting = nullptr; }

class Completion::Signal final : public EventState {
 public:
  void wait() override { last().wait(); }

  bool done() override {
    const std::scoped_lock lock(mutex_);
    return signalled_ && (failure_ || last_.done());
  }

  Event on_device() override { return last().on_device(); }

  void signal(std::exception_ptr failure, Event last) {
    {
      const std::scoped_lock lock(mutex_);
      failure_ = std::move(failure);
      last_ = std::move(last);
      signalled_ = true;
    }
    changed_.notify_all();
  }

 private:
  Event last() {
    std::unique_lock lock(mutex_);
    while (while_waiting != nullptr && !signalled_) {
      lock.unlock();
      (*while_waiting)();
      lock.lock();
    }
    changed_.wait(lock, [this] { return signalled_; });
    if (failure_) std::rethrow_exception(failure_);
    return last_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ = false;
  std::exception_ptr failure_;
  Event last_;
};

Completion::Completion() : state_(std::make_shared<Signal>()) {}

Completion::~Completion() {
  if (state_) fail(std::make_exception_ptr(Error("the work was abandoned before it ended")));
}

Event Completion::event() const { return Event(state_); }

void Completion::succeed(Event last) {
  std::exchange(state_, nullptr)->signal(nullptr, std::move(last));
}

void Completion::fail(std::exception_ptr failure) {
  std::exchange(state_, nullptr)->signal(std::move(failure), {});
}

}  // namespace barge
