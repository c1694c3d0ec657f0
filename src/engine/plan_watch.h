#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "core/clock.h"
#include "engine/engine_stats.h"
#include "engine/sweep_record.h"
#include "policy/cost_model.h"

namespace barge {

/// Holds sweeps against what the plan's cost model says of their very loads, and logs where a
/// minute of them took a quarter longer or shorter, with the resource that differs. One thread.
class PlanWatch {
 public:
  /// `profile` outlives it. `stats()`: of the engine, now.
  PlanWatch(const Profile& profile, const ModelShape& shape, const Policy& policy,
            std::function<EngineStats()> stats);

  /// After each sweep. Returns what it logged, if anything.
  std::string add(const SweepRecord& sweep);
  /// Seconds of all sweeps so far, as they were and as they were predicted. Thread-safe.
  double seconds() const { return seconds_; }
  double predicted() const { return predicted_; }

 private:
  std::string compare(const EngineStats& now) const;

  const SweepPricer pricer_;
  const std::function<EngineStats()> stats_;
  std::atomic<double> seconds_ = 0, predicted_ = 0;  // of all
  // Since the minute began.
  double minute_ = 0, longest_ = 0;
  ResourceSeconds asked_;
  EngineStats before_;
  int quiet_minutes_ = 0;  // that nothing is logged, after something was
};

}  // namespace barge
