// From flags to a plan.
#include <algorithm>
#include <cstdlib>

#include "cli/session.h"
#include "cli/text_files.h"
#include "core/errors.h"
#include "engine/engine.h"

namespace barge {
namespace {

int kv_bits_of(const Options& o) { return o.kv_bits == "auto" ? 16 : std::atoi(o.kv_bits.c_str()); }

int max_positions_of(const Options& o, const ModelConfig& config) {
  int most = config.context;
  if (config.sliding_window > 0) most = std::min(most, config.sliding_window);
  if (o.max_model_len > most)
    throw ConfigError(concat("--max-model-len ", o.max_model_len, " is longer than the ", most,
                             " positions that ", config.name, " was made for"));
  return o.max_model_len > 0 ? o.max_model_len : most;
}

int bits_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::kQ4:
      return 4;
    case Encoding::kQ8:
      return 8;
    case Encoding::kF32:
      return 32;
    default:
      return 16;
  }
}

}  // namespace

PlannedModel planned_model(const Options& options, const ModelConfig& config,
                           std::function<WeightFormat(const TensorSpec&)> format_of) {
  PlannedModel model;
  model.family = make_family(config);
  model.format_of = std::move(format_of);
  model.kv_bits = kv_bits_of(options);
  model.max_positions = max_positions_of(options, config);
  // The bits that most weights have: a checkpoint may keep some matrices finer.
  std::int64_t most = 0;
  for (const Part& part : model.family->parts())
    for (const TensorSpec& tensor : part.tensors)
      if (tensor.kind == TensorSpec::Kind::kMatrix && tensor.rows * tensor.cols > most) {
        most = tensor.rows * tensor.cols;
        model.weight_bits = bits_of(model.format_of(tensor).encoding);
      }
  return model;
}

Plan make_plan(const Options& o, const PlannedModel& model, const Profile& profile,
               const TierLimits& limits, Machine& machine, const Workload& job) {
  const ShapeFor shape_for = [&](const Policy& policy) {
    const KernelLimits bounds = kernel_limits(*model.family, policy, machine.compute);
    ModelShape shape = shape_of(*model.family, model.format_of, policy.kv_bits, kv_group(o), bounds,
                                machine.backend->workspace_bytes(bounds));
    shape.tokenizer_bytes = model.tokenizer_bytes;
    shape.attention_workspace_bytes = attention_workspace_bytes(model.family->config(), o.threads);
    return shape;
  };
  if (o.policy != "auto") {
    Policy policy = policy_from_json(read_text(o.policy), o.policy);
    policy.weight_bits = model.weight_bits;  // the pack's
    if (o.kv_bits != "auto") policy.kv_bits = model.kv_bits;
    if (o.gpu_batch_size) policy.gpu_batch_size = *o.gpu_batch_size;
    if (o.num_gpu_batches) policy.num_gpu_batches = *o.num_gpu_batches;
    if (o.prefill_chunk) policy.sweep_tokens = *o.prefill_chunk;
    if (o.page_positions) policy.page_positions = *o.page_positions;
    if (!o.percent.empty()) set_percent(policy, o.percent);
    if (o.cpu_attention != "auto") policy.cpu_attention = o.cpu_attention == "on";
    if (o.no_prefix_sharing) policy.prefix_sharing = false;
    policy.max_positions = std::min(policy.max_positions, model.max_positions);
    policy.sweep_tokens = std::max(policy.sweep_tokens, policy.block_sequences());
    return price(profile, shape_for, job, policy);
  }
  PolicyWishes wishes;
  wishes.gpu_batch_size = o.gpu_batch_size;
  wishes.num_gpu_batches = o.num_gpu_batches;
  wishes.sweep_tokens = o.prefill_chunk;
  if (!o.percent.empty()) wishes.percent = o.percent;
  wishes.weight_bits = model.weight_bits;
  wishes.kv_bits = model.kv_bits;
  wishes.cpu_attention = o.cpu_attention == "on";
  wishes.max_positions = model.max_positions;
  wishes.page_positions = o.page_positions.value_or(0);
  Plan plan = search(profile, shape_for, job, limits, wishes);
  plan.policy.prefix_sharing = !o.no_prefix_sharing;
  return plan;
}

}  // namespace barge
