#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "core/event.h"

namespace barge {

/// Does work once an event before it is over, in the order in which it was given, on a thread of
/// its own: events can only be waited for one by one, and who gives the work must not wait.
/// Thread-safe; the destructor lets all through first.
class EventGate {
 public:
  /// What the event failed with, or null. Must not throw.
  using Work = std::function<void(std::exception_ptr)>;

  EventGate();
  ~EventGate();

  void call_after(Event event, Work work);

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::pair<Event, Work>> held_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace barge
