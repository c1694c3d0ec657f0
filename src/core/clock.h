#pragma once

#include <chrono>

namespace barge {

using Seconds = std::chrono::duration<double>;

/// The time that a device lives in. The scheduler asks only this one, so that it can run in the
/// virtual time of a machine that isn't here. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Since an arbitrary start; never goes back.
  virtual Seconds now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Seconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace barge
