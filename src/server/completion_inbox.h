#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/generator.h"

namespace barge {

/// Where the generator's thread leaves what it has for one completion. Shared with its callbacks,
/// which may come after the client went away. What waits here is at most the whole answer.
/// Thread-safe.
class CompletionInbox {
 public:
  struct Event {
    std::size_t choice = 0;
    std::string text;  // a piece, with its tokens, ...
    std::vector<SampledToken> tokens;
    std::optional<TextResult> result;  // ... or the end
  };

  /// `wake` is called with the first event after a `take`, on the generator's thread; must be
  /// quick.
  explicit CompletionInbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void put(Event event) {
    const std::lock_guard lock(mutex_);
    if (!wake_) return;
    events_.push_back(std::move(event));
    if (events_.size() == 1) wake_();
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return events_.empty();
  }
  std::vector<Event> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }
  /// Nobody wants to know any more.
  void close() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    events_.clear();
  }

 private:
  mutable std::mutex mutex_;    // guards what follows
  std::function<void()> wake_;  // empty: closed
  std::vector<Event> events_;
};

}  // namespace barge
