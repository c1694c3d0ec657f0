#pragma once

#include <exception>
#include <memory>
#include <utility>

namespace barge {

/// What a device keeps behind an event. Thread-safe.
class EventState {
 public:
  virtual ~EventState() = default;
  /// Blocks until the work before the event is done; rethrows that work's failure.
  virtual void wait() = 0;
  /// Whether wait() would return or throw at once.
  virtual bool done() = 0;
};

/// A point in a stream's work, or the end of a disk request. A failure of the work before it
/// travels with it: whoever waits gets the exception, and a stream that waits fails too.
/// A default-constructed event is done. Cheap to copy: the state is shared, because an event
/// outlives both the stream that recorded it and any one of those who wait.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}

  void wait() const {
    if (state_) state_->wait();
  }
  bool done() const { return !state_ || state_->done(); }
  const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

/// The host's side of an event: signalled once, by the code that ends the work (a disk queue).
/// Destroying an unsignalled one fails the event, so that nobody waits for ever.
class Completion {
 public:
  class Signal : public EventState {
   public:
    /// At most once; null means success.
    virtual void signal(std::exception_ptr failure) = 0;
  };

  explicit Completion(std::shared_ptr<Signal> state) : state_(std::move(state)) {}
  Completion(Completion&&) = default;
  Completion& operator=(Completion&&) = default;
  ~Completion();

  Event event() const { return Event(state_); }
  void succeed() { finish(nullptr); }
  void fail(std::exception_ptr failure) { finish(std::move(failure)); }

 private:
  void finish(std::exception_ptr failure) {
    std::exchange(state_, nullptr)->signal(std::move(failure));
  }

  std::shared_ptr<Signal> state_;
};

/// A completion that host threads and CPU streams can wait for.
Completion make_host_completion();

}  // namespace barge
