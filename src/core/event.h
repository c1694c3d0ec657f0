#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace barge {

class Event;

/// What a device keeps behind an event. Thread-safe.
class EventState {
 public:
  virtual ~EventState() = default;
  /// Blocks until the work before the event is done; rethrows that work's failure.
  virtual void wait() = 0;
  /// Whether wait() would return or throw at once.
  virtual bool done() = 0;
  /// Blocks until all that is left to wait for is work of a device, and returns that work's event:
  /// a stream of the same device can wait for it without the host. Rethrows the host's failure.
  virtual Event on_device() = 0;
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
  Event on_device() const { return state_ ? state_->on_device() : Event(); }
  /// The same event, with a literal that says what it brings: who waits for it can say what for.
  Event named(const char* what) const {
    Event event = *this;
    event.name_ = what;
    return event;
  }
  const char* name() const { return name_; }
  const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
  const char* name_ = "other work";
};

/// What this thread does while it waits for a Completion's event, again and again, in place of
/// sleeping: in a simulation it brings about what it waits for. Throws what `step` throws.
class WhileWaiting {
 public:
  explicit WhileWaiting(std::function<void()> step);
  ~WhileWaiting();
  WhileWaiting(const WhileWaiting&) = delete;

 private:
  std::function<void()> step_;
};

/// The host's side of an event: signalled once, by the code that ends the work (a disk queue).
/// Destroying an unsignalled one fails the event, so that nobody waits for ever.
class Completion {
 public:
  Completion();
  Completion(Completion&&) = default;
  Completion& operator=(Completion&&) = default;
  ~Completion();

  Event event() const;
  /// The event is done once `last` is: work that the host gave to a device at the end.
  void succeed(Event last = {});
  void fail(std::exception_ptr failure);

 private:
  class Signal;

  std::shared_ptr<Signal> state_;
};

}  // namespace barge
