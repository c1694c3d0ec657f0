#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/accelerator.h"
#include "cli/options.h"
#include "core/trace.h"
#include "engine/text_engine.h"
#include "jobs/lookahead.h"
#include "model/chat_template.h"
#include "model/description.h"
#include "model/family.h"
#include "model/tokenizer.h"
#include "offload/disk_queue.h"
#include "offload/pack.h"
#include "pack/convert.h"
#include "policy/search.h"

namespace barge {

/// The machine as the flags want it seen: budgets, device, disk. Everything else is built on it.
struct Machine {
  explicit Machine(const Options& options);

  std::filesystem::path cache_directory, disk_directory;
  Accelerator accelerator;
  Budgets budgets;
  std::unique_ptr<Trace> trace;  // null unless --trace is given; of backend and disk
  std::unique_ptr<Backend> backend;
  DType compute;
  DiskQueue disk;

  Device& device() const { return backend->device(); }

  /// Measured once and kept; a first run makes a quick one (10 s at most) and says so.
  Profile profile(bool quick = true, bool renew = false);
  TierLimits limits() const;
};

/// --cache-dir, or the user's.
std::filesystem::path cache_directory_of(const Options& options);

/// How the flags want a checkpoint packed.
ConvertOptions convert_options(const Options& options);
inline int kv_group(const Options& options) {
  return options.group_size > 0 ? options.group_size : 64;
}

/// A model by its description and the formats of its tensors, with or without a pack of it.
struct PlannedModel {
  std::unique_ptr<Family> family;
  std::function<WeightFormat(const TensorSpec&)> format_of;
  int weight_bits = 4, kv_bits = 16, max_positions = 0;
  std::size_t tokenizer_bytes = 0;
};
/// Throws ConfigError where a flag doesn't fit the model.
PlannedModel planned_model(const Options& options, const ModelConfig& config,
                           std::function<WeightFormat(const TensorSpec&)> format_of);

/// What `run`, `serve` and `plan` decide on: searched, or as --policy and --percent say.
Plan make_plan(const Options& options, const PlannedModel& model, const Profile& profile,
               const TierLimits& limits, Machine& machine, const Workload& job);

/// A table for people: policy, bytes a tier against budgets, prediction.
std::string describe_plan(const Plan& plan, const TierLimits& limits, bool unified);
std::string plan_to_json(const Plan& plan, bool unified);
std::string infeasible_to_json(const Infeasible& miss, bool unified);
nlohmann::json tiers_to_json(const PerTier<std::size_t>& bytes);

/// MODEL's last path component, without .gguf: the name that clients use unless told another.
std::string default_served_name(const std::string& model);

/// A model, planned for and, once loaded, ready to generate.
class Session {
 public:
  /// Opens or makes the pack, plans, prints the plan to the log. Throws what goes wrong.
  Session(const Options& options, const Workload& job);
  /// Makes the engine: reads what is at home in memory.
  void load(const Options& options, bool hash_logits = false);
  /// Ends the engine and what it has under way, and frees its memory.
  void unload();

  /// Blocks that `run`, `serve` and `bench` hand to the engine at a time: two, or up to eight.
  Lookahead lookahead() const {
    const int block = plan.policy.block_sequences();
    return {.least = 2 * block, .most = 8 * block};
  }

  Machine machine;
  Pack pack;
  std::string served_name;
  ModelConfig config;
  std::unique_ptr<Family> family;
  MemoryBudget::Reservation tokenizer_memory;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  Plan plan;
  std::function<void(const SweepRecord&)> on_sweep;  // Engine::Options', if set before `load`
  std::unique_ptr<Engine> engine;                    // these two only after `load`
  std::unique_ptr<TextEngine> text;
};

/// What had been done when a run began.
struct ReportStart {
  EngineStats stats;
  std::size_t read_bytes = 0, write_bytes = 0;  // of the disk, by this process
};
ReportStart start_report(const Session& session);

/// What a run of so many seconds did: tokens, tiers, traffic, waits, memory; with the keys of
/// `barge bench --json`. Peaks and homes are those since the process began.
nlohmann::json report(Session& session, double seconds, const ReportStart& start = {});

}  // namespace barge
