#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/bench_job.h"
#include "probe/sweep_limits.h"

namespace barge {

/// The limits that a session is held against: of its machine, in the shapes of its model.
class BenchLimits {
 public:
  /// `session` needn't be loaded.
  explicit BenchLimits(const Options& options, Session& session);

  /// Measures processor, memory and disk for two or three seconds, before and after what is held
  /// against them. The best of both holds: virtual machines and their disks change their mind.
  void measure(Session& session);
  const MachineLimits& machine() const { return machine_; }
  SweepLimits sweep_limits() const;
  SweepLimits sweep_limits_in_16_bits() const;

 private:
  const int threads_;
  MachineLimits machine_;
  ModelShape shape_;
  Policy policy_;
  bool unified_;
};

/// The keys of `barge bench --json`; `limits` may be null.
nlohmann::json bench_report(nlohmann::json report, const BenchRun& run);
/// Adds `limits` and `ratios` to it.
void add_limits(nlohmann::json& report, const BenchRun& run, const BenchLimits& limits);
/// A table for people.
std::string bench_table(const nlohmann::json& report);

}  // namespace barge
