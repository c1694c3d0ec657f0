#pragma once

#include <memory>

#include "core/device.h"
#include "core/thread_pool.h"

namespace barge {

/// The CPU in the role of the accelerator. Unified, unless a link is emulated: then device memory
/// is an arena of its own budget, and copies to and from it take as long as the link would.
class CpuDevice final : public Device {
 public:
  struct Options {
    int threads = 0;          // of compute; 0: all that this process may run on
    double emulate_link = 0;  // bytes per second each way; 0: unified
  };

  CpuDevice(Options options, Budgets& budgets);
  ~CpuDevice() override;

  std::string name() const override;
  bool unified() const override;
  Buffer allocate(Tier tier, std::size_t bytes, std::string_view tag) override;
  Stream& compute() override;
  Stream& load() override;
  Stream& store() override;
  const Clock& clock() const override { return clock_; }
  LinkTraffic link_traffic() const override;
  double compute_seconds() const override;
  std::map<std::string, double> compute_waits() const override;

  /// Bytes per second each way; 0: unified.
  double emulated_link() const { return options_.emulate_link; }
  /// For kernels only, and only from work of the compute stream.
  ThreadPool& pool();

 private:
  struct Streams;

  const Options options_;
  Budgets& budgets_;
  SteadyClock clock_;
  std::unique_ptr<Streams> streams_;
};

/// Processors that this process may run on (its affinity and its cgroup's quota).
int usable_processors();

}  // namespace barge
