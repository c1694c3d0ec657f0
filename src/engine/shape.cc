#include <algorithm>
#include <cmath>
#include <map>

#include "core/errors.h"
#include "engine/buffers.h"
#include "engine/engine.h"
#include "engine/host_attention.h"
#include "engine/kv_format.h"
#include "engine/legs.h"
#include "engine/sampler.h"
#include "engine/scratch_meter.h"
#include "offload/pack_layout.h"

namespace barge {
namespace {

std::vector<std::size_t> panel_bytes(const TensorSpec& spec, const WeightFormat& format) {
  const PackTensor tensor{.name = spec.name,
                          .kind = spec.kind,
                          .rows = spec.rows,
                          .cols = spec.cols,
                          .format = format,
                          .panels = {}};
  std::vector<std::size_t> bytes;
  for (const PackPanel& panel :
       cut_panels(tensor, panel_rows(tensor.kind, tensor.rows, tensor.cols, format)))
    bytes.push_back(panel.stored_bytes());
  return bytes;
}

// [parts]: the leg that each belongs to, -1 where the whole block goes through at once.
std::vector<int> legs_in_halves(std::span<const Part> parts) {
  std::vector<int> of_part(parts.size(), -1);
  const std::vector<Leg> legs = legs_of(parts);
  for (std::size_t i = 0; i < legs.size(); ++i)
    for (std::size_t p = 0; legs[i].in_halves && p < legs[i].num_parts; ++p)
      of_part[legs[i].first_part + p] = static_cast<int>(i);
  return of_part;
}

}  // namespace

KvFormat kv_format_of(const ModelConfig& config, int kv_bits, int kv_group) {
  KvFormat format{.encoding = Encoding::kF16,
                  .kv_heads = config.kv_heads,
                  .head_dim = config.head_dim,
                  .group = kv_group};
  if (kv_bits == 4)
    format.encoding = Encoding::kQ4;
  else if (kv_bits == 32)
    format.encoding = Encoding::kF32;
  else if (kv_bits != 16)
    throw ConfigError(concat("--kv-bits wants 4, 16 or 32, got ", kv_bits));
  return format;
}

float attention_scale(const ModelConfig& config) {
  return 1 / std::sqrt(static_cast<float>(config.head_dim));
}

KernelLimits kernel_limits(const Family& family, const Policy& policy, DType compute,
                           int activation_bits) {
  const ModelConfig& config = family.config();
  KernelLimits limits{.compute = compute,
                      .max_rows = std::max(policy.sweep_tokens, policy.block_sequences()),
                      .max_inputs = config.hidden,
                      .heads = config.heads,
                      .head_dim = config.head_dim,
                      .activation_bits = policy.weight_bits <= 8 ? activation_bits : 16};
  for (const Part& part : family.parts())
    for (const TensorSpec& tensor : part.tensors)
      if (tensor.kind != TensorSpec::Kind::kVector)
        limits.max_inputs = std::max(limits.max_inputs, tensor.cols);
  return limits;
}

std::size_t attention_workspace_bytes(const ModelConfig& config, int threads) {
  return cpu_workspace_bytes(HostAttention::limits(config.heads, config.head_dim, 0),
                             HostAttention::threads(threads));
}

ModelShape shape_of(const Family& family,
                    const std::function<WeightFormat(const TensorSpec&)>& format_of, int kv_bits,
                    int kv_group, const KernelLimits& limits,
                    const PerTier<std::size_t>& workspace_bytes) {
  const ModelConfig& c = family.config();
  ModelShape shape{.name = c.name,
                   .layers = c.layers,
                   .hidden = c.hidden,
                   .heads = c.heads,
                   .kv_heads = c.kv_heads,
                   .head_dim = c.head_dim,
                   .vocab = c.vocab,
                   .context = c.context,
                   .matrices = {},
                   .kv_record_bytes = kv_format_of(c, kv_bits, kv_group).record_bytes(),
                   .workspace_bytes = workspace_bytes};
  std::map<std::string, std::size_t> known;  // tensors that an earlier part has listed
  const std::vector<Part> parts = family.parts();
  const std::vector<int> legs = legs_in_halves(parts);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[p];
    const ScratchMeter::Reading reading = ScratchMeter::read(family, part, limits.compute);
    shape.scratch_bytes_per_row = std::max(shape.scratch_bytes_per_row, reading.scratch_bytes);
    if (part.kind == Part::Kind::kAttention) {
      shape.attention_bytes_per_row = reading.scratch_bytes + reading.projected_bytes;
      shape.projected_bytes_per_row = reading.projected_bytes;
    }
    shape.attended_bytes_per_row = std::max(shape.attended_bytes_per_row, reading.attended_bytes);
    shape.wanted_bytes_per_row = std::max(shape.wanted_bytes_per_row, reading.wanted_bytes);
    for (const TensorSpec& tensor : part.tensors) {
      if (tensor.kind == TensorSpec::Kind::kVector) {
        for (const std::size_t bytes : panel_bytes(tensor, {})) shape.vector_bytes += bytes;
        continue;
      }
      if (!known.try_emplace(tensor.name, shape.matrices.size()).second) continue;
      shape.matrices.push_back({.name = tensor.name,
                                .part = static_cast<int>(p),
                                .rows = tensor.rows,
                                .cols = tensor.cols,
                                .panel_bytes = panel_bytes(tensor, format_of(tensor)),
                                .table = tensor.kind == TensorSpec::Kind::kTable,
                                .visited = false,
                                .leg = legs[p]});
    }
    const auto tensor_at = [&](int t) { return part.tensors[static_cast<std::size_t>(t)]; };
    for (const int t : reading.multiplied)
      shape.matrices[known.at(tensor_at(t).name)].visited = true;
    for (const int t : reading.looked_up)
      shape.table_row_bytes += panel_layout(format_of(tensor_at(t)), 1, tensor_at(t).cols).bytes;
  }
  shape.logits_row_bytes = padded_row_bytes(c.vocab, DType::kF32);
  shape.sampler_bytes = Sampler::scratch_bytes(c.vocab);
  return shape;
}

}  // namespace barge
