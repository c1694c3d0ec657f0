#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/accelerator.h"
#include "cli/options.h"
#include "cli/planning.h"
#include "core/trace.h"
#include "engine/plan_watch.h"
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

  /// Of the inputs of products with this model's weights.
  int activation_bits() const {
    return plan.policy.weight_bits <= 8 ? machine.activation_bits : 16;
  }

  /// Blocks that `run`, `serve` and `bench` hand to the engine at a time: two, or up to eight.
  Lookahead lookahead() const { return Lookahead::of_block(plan.policy.block_sequences()); }

  Machine machine;
  const Options options;  // as given, bits chosen
  Pack pack;
  std::string served_name;
  ModelConfig config;
  std::unique_ptr<Family> family;
  MemoryBudget::Reservation tokenizer_memory;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  Profile profile;
  Plan plan;
  std::optional<PlanWatch> watch;                    // sees the sweeps, on the engine's thread
  std::function<void(const SweepRecord&)> on_sweep;  // so does this, if set
  int reserved_sequences = 0;                        // of the engine's block, for urgent requests
  std::unique_ptr<Engine> engine;                    // these two only after `load`
  std::unique_ptr<TextEngine> text;
};

}  // namespace barge
