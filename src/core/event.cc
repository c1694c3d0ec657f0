#include "core/event.h"

#include <condition_variable>
#include <mutex>

#include "core/errors.h"

namespace barge {
namespace {

class HostSignal final : public Completion::Signal {
 public:
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (failure_) std::rethrow_exception(failure_);
  }

  bool done() override {
    const std::scoped_lock lock(mutex_);
    return done_;
  }

  void signal(std::exception_ptr failure) override {
    {
      const std::scoped_lock lock(mutex_);
      failure_ = std::move(failure);
      done_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr failure_;
};

}  // namespace

Completion::~Completion() {
  if (state_) finish(std::make_exception_ptr(Error("the work was abandoned before it ended")));
}

Completion make_host_completion() { return Completion(std::make_shared<HostSignal>()); }

}  // namespace barge
