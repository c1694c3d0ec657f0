#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/machine.h"
#include "cli/options.h"
#include "model/family.h"
#include "pack/convert.h"
#include "policy/alternatives.h"
#include "policy/search.h"

namespace barge {

/// How the flags want a checkpoint packed. Bits are chosen: `auto` is an error by now.
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
/// What options.model would be as a pack, without making one.
PlannedModel planned_model(const Options& options);

/// The machine that is planned for.
struct PlanTarget {
  Profile profile;
  TierLimits limits;
  DType compute = DType::kF32;
  int activation_bits = 16;
  std::function<PerTier<std::size_t>(const KernelLimits&)> workspace_bytes;
};
/// This one. `machine` outlives it.
PlanTarget this_machine(Machine& machine);
/// That of a profile, by its file; budgets as the flags say, of what it has. `here` outlives it.
PlanTarget other_machine(const Options& options, const std::filesystem::path& profile,
                         Machine& here);

/// What `run`, `serve` and `plan` decide on: searched, or as --policy and --percent say.
Plan make_plan(const Options& options, const PlannedModel& model, const PlanTarget& target,
               Workload job);
ShapeFor shape_for(const Options& options, const PlannedModel& model, const PlanTarget& target);
PolicyWishes wishes_of(const Options& options, const PlannedModel& model);

/// A table for people: policy, bytes a tier against budgets, prediction, what would help.
std::string describe_plan(const Plan& plan, const TierLimits& limits, bool unified);
std::string describe_neighbours(const Plan& plan, const std::vector<Neighbour>& neighbours);
std::string describe_frontier(const std::vector<Plan>& plans);
nlohmann::json plan_to_json(const Plan& plan, bool unified);
nlohmann::json infeasible_to_json(const Infeasible& miss, bool unified);
nlohmann::json neighbours_to_json(const std::vector<Neighbour>& neighbours, bool unified);
nlohmann::json frontier_to_json(const std::vector<Plan>& plans, bool unified);
nlohmann::json tiers_to_json(const PerTier<std::size_t>& bytes);

}  // namespace barge
