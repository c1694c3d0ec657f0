#pragma once

#include <map>
#include <mutex>
#include <string>

#include "core/clock.h"

namespace barge {

/// Seconds spent waiting, by what for. Thread-safe.
class Waits {
 public:
  void add(const char* what, Seconds took) {
    const std::scoped_lock lock(mutex_);
    seconds_[what] += took.count();
  }
  std::map<std::string, double> seconds() const {
    const std::scoped_lock lock(mutex_);
    return seconds_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> seconds_;
};

}  // namespace barge
