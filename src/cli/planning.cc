#include "cli/planning.h"

#include <algorithm>
#include <cstdlib>

#include "cli/text_files.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "engine/engine.h"
#include "model/checkpoint.h"
#include "model/description.h"
#include "model/tokenizer.h"
#include "offload/pack.h"
#include "quant/bits.h"

namespace barge {
namespace {

int kv_bits_of(const Options& o) { return o.kv_bits.empty() ? 16 : std::atoi(o.kv_bits.c_str()); }

int max_positions_of(const Options& o, const ModelConfig& config) {
  int most = config.context;
  if (config.sliding_window > 0) most = std::min(most, config.sliding_window);
  if (o.max_model_len > most)
    throw ConfigError(concat("--max-model-len ", o.max_model_len, " is longer than the ", most,
                             " positions that ", config.name, " was made for"));
  return o.max_model_len > 0 ? o.max_model_len : most;
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

ConvertOptions convert_options(const Options& o) {
  ConvertOptions options;
  options.weight_bits = parse_weight_bits(o.weight_bits);
  options.group = o.group_size;
  options.threads = o.threads;
  return options;
}

PlannedModel planned_model(const Options& o) {
  if (is_pack(o.model)) {
    const auto pack = std::make_shared<Pack>(o.model);
    const ModelDescription description = description_from_json(pack->model(), o.model);
    PlannedModel model = planned_model(o, description.config, [pack](const TensorSpec& tensor) {
      return pack->tensors()[static_cast<std::size_t>(pack->find(tensor.name))].format;
    });
    model.tokenizer_bytes = Tokenizer(description.tokenizer).bytes();
    return model;
  }
  const std::shared_ptr<Checkpoint> checkpoint = open_checkpoint(o.model);
  const ConvertOptions convert = convert_options(o);
  validate(convert);
  PlannedModel model =
      planned_model(o, checkpoint->config(), [checkpoint, convert](const TensorSpec& tensor) {
        return packed_format(*checkpoint, tensor, convert);
      });
  model.tokenizer_bytes = Tokenizer(checkpoint->tokenizer()).bytes();
  return model;
}

PlanTarget this_machine(Machine& machine) {
  return {.profile = machine.profile(),
          .limits = machine.limits(),
          .compute = machine.compute,
          .activation_bits = machine.activation_bits,
          .workspace_bytes = [&machine](const KernelLimits& limits) {
            return machine.backend->workspace_bytes(limits);
          }};
}

PlanTarget other_machine(const Options& o, const std::filesystem::path& file, Machine& here) {
  // What a GPU's kernels take: a decoded panel and cuBLAS's own.
  constexpr std::size_t kGpuWorkspace = 64_MiB;
  const Profile profile = profile_from_json(read_text(file), file.string());
  const auto limit = [](const std::string& flag, double has, const char* name) {
    return flag.empty() ? static_cast<std::size_t>(has)
                        : parse_bytes(flag, name, static_cast<std::size_t>(has));
  };
  PlanTarget target{.profile = profile,
                    .limits = {limit(o.gpu_memory, profile.device_bytes, "--gpu-memory"),
                               limit(o.cpu_memory, profile.host_bytes, "--cpu-memory"),
                               limit(o.disk_space, profile.disk_bytes, "--disk-space")},
                    .compute = here.compute,
                    .activation_bits = here.activation_bits,
                    .workspace_bytes = [&here](const KernelLimits& limits) {
                      return here.backend->workspace_bytes(limits);
                    }};
  if (!profile.unified) {
    target.compute = DType::kF16;
    target.activation_bits = 16;
    target.workspace_bytes = [](const KernelLimits&) {
      return PerTier<std::size_t>{.device = kGpuWorkspace};
    };
  }
  return target;
}

ShapeFor shape_for(const Options& o, const PlannedModel& model, const PlanTarget& target) {
  return [&o, &model, &target](const Policy& policy) {
    const KernelLimits bounds =
        kernel_limits(*model.family, policy, target.compute, target.activation_bits);
    ModelShape shape = shape_of(*model.family, model.format_of, policy.kv_bits, kv_group(o), bounds,
                                target.workspace_bytes(bounds));
    shape.tokenizer_bytes = model.tokenizer_bytes;
    shape.attention_workspace_bytes = attention_workspace_bytes(model.family->config(), o.threads);
    return shape;
  };
}

PolicyWishes wishes_of(const Options& o, const PlannedModel& model) {
  PolicyWishes wishes;
  wishes.gpu_batch_size = o.gpu_batch_size;
  wishes.num_gpu_batches = o.num_gpu_batches;
  wishes.sweep_tokens = o.prefill_chunk;
  if (!o.percent.empty()) wishes.percent = o.percent;
  wishes.weight_bits = model.weight_bits;
  wishes.kv_bits = model.kv_bits;
  wishes.cpu_attention = o.cpu_attention == "on"    ? CpuAttention::kOn
                         : o.cpu_attention == "off" ? CpuAttention::kOff
                                                    : CpuAttention::kAuto;
  wishes.max_positions = model.max_positions;
  wishes.page_positions = o.page_positions.value_or(0);
  return wishes;
}

Plan make_plan(const Options& o, const PlannedModel& model, const PlanTarget& target,
               Workload job) {
  if (o.no_prefix_sharing) job.shared_prefix = 0;
  const ShapeFor shape = shape_for(o, model, target);
  if (o.policy != "auto") {
    Policy policy = policy_from_json(read_text(o.policy), o.policy);
    policy.weight_bits = model.weight_bits;  // the pack's
    if (!o.kv_bits.empty()) policy.kv_bits = model.kv_bits;
    if (o.gpu_batch_size) policy.gpu_batch_size = *o.gpu_batch_size;
    if (o.num_gpu_batches) policy.num_gpu_batches = *o.num_gpu_batches;
    if (o.prefill_chunk) policy.sweep_tokens = *o.prefill_chunk;
    if (o.page_positions) policy.page_positions = *o.page_positions;
    if (!o.percent.empty()) set_percent(policy, o.percent);
    if (o.cpu_attention != "auto") policy.cpu_attention = o.cpu_attention == "on";
    if (o.no_prefix_sharing) policy.prefix_sharing = false;
    policy.max_positions = std::min(policy.max_positions, model.max_positions);
    policy.sweep_tokens = std::max(policy.sweep_tokens, policy.block_sequences());
    return price(target.profile, shape, job, policy);
  }
  Plan plan = search(target.profile, shape, job, target.limits, wishes_of(o, model));
  plan.policy.prefix_sharing = !o.no_prefix_sharing;
  return plan;
}

}  // namespace barge
