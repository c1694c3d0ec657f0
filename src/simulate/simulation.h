#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/event.h"
#include "core/trace.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "engine/stores.h"
#include "policy/profile.h"
#include "policy/search.h"
#include "simulate/sim_backend.h"
#include "simulate/sim_disk.h"
#include "simulate/virtual_time.h"

namespace barge {

/// The engine on a machine that isn't here: its scheduler, weight ring, KV store and budgets as
/// they are, on a device and a disk that only take time. All on the thread that made it, and always
/// the same.
class Simulation {
 public:
  struct Options {
    Engine::Options engine;  // policy, compute type, KV group, on_sweep; the rest is ours
    std::function<WeightFormat(const TensorSpec&)> format_of;
    TierLimits limits;
    PerTier<std::size_t> workspace;       // of the kernels that the machine would have
    std::size_t attention_workspace = 0;  // of those of its processor, where that attends
    std::filesystem::path directory;      // takes an empty nameless file
    bool trace = false;
  };
  /// "Loads" the weights. Throws as Engine's constructor does, and ConfigError where the CPU is to
  /// attend and the profile doesn't say how fast it does. References outlive it.
  Simulation(const Profile& profile, const Family& family, const Options& options);

  /// Runs the requests in order, as many ahead of the block as `lookahead` says, to their ends.
  /// Answers are as long as they may be. `progress(tokens generated)` after each sweep. Throws
  /// Error with the first failure.
  void run(std::vector<GenerationRequest> requests, std::size_t lookahead,
           const std::function<void(std::size_t)>& progress = {});

  const Clock& clock() const { return time_; }
  EngineStats stats();
  Budgets& budgets() { return budgets_; }
  Trace* trace() { return trace_ ? &*trace_ : nullptr; }

 private:
  void add(GenerationRequest request);

  const Profile& profile_;
  const Profile processor_;  // as a device of its own
  const OperationCost cost_;
  const int vocab_;
  VirtualTime time_;
  std::optional<Trace> trace_;
  Budgets budgets_;
  const Pack pack_;
  const std::unique_ptr<Backend> backend_, attention_;
  SimDisk disk_;
  const WhileWaiting waiting_;  // after what `step` moves, before who waits
  const Engine::Options engine_options_;
  Stores stores_;
  Scheduler scheduler_;
  std::uint64_t last_id_ = 0;
  std::string failure_;
};

}  // namespace barge
