#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/event.h"
#include "offload/disk_request.h"

namespace barge {

/// Holds requests back until an event before each is done, in the order in which they were given,
/// on a thread of its own: events can only be waited for one by one, and the queue's thread must
/// not. Thread-safe; the destructor lets all through first.
class DiskGate {
 public:
  /// `pass` gets each request, its failure set if the event failed.
  explicit DiskGate(std::function<void(std::unique_ptr<DiskRequest>)> pass);
  ~DiskGate();

  void hold_back(Event after, std::unique_ptr<DiskRequest> request);

 private:
  void run();

  const std::function<void(std::unique_ptr<DiskRequest>)> pass_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::pair<Event, std::unique_ptr<DiskRequest>>> held_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace barge
