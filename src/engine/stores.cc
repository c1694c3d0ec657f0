#include "engine/stores.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "engine/kv_format.h"

namespace barge {
namespace {

// On a unified device the host is where device homes are.
Policy on_device(Policy policy, int layers, const Device& device) {
  if (policy.gpu_batch_size < 1 || policy.num_gpu_batches < 1)
    throw ConfigError(concat("a block wants at least one sequence, got --gpu-batch-size ",
                             policy.gpu_batch_size, " and --num-gpu-batches ",
                             policy.num_gpu_batches));
  if (policy.sweep_tokens < policy.block_sequences())
    throw ConfigError(concat("a sweep of ", policy.sweep_tokens,
                             " tokens (--prefill-chunk) has no ", "row for each of a block's ",
                             policy.block_sequences(),
                             " sequences: raise it or lower --gpu-batch-size"));
  policy.kv = kv_shares(policy, layers, device.unified());
  policy.cpu_attention = attends_on_host(policy, device.unified());
  if (device.unified()) {
    for (PerTier<double>* share : {&policy.weights, &policy.kv})
      share->host += std::exchange(share->device, 0);
  }
  return policy;
}

ModelShape shape_in_pack(const Pack& pack, const Family& family, const Policy& policy, int kv_group,
                         const KernelLimits& limits, const PerTier<std::size_t>& workspace,
                         std::size_t attention_workspace) {
  ModelShape shape = shape_of(
      family,
      [&pack](const TensorSpec& tensor) {
        return pack.tensors()[static_cast<std::size_t>(pack.find(tensor.name))].format;
      },
      policy.kv_bits, kv_group, limits, workspace);
  shape.attention_workspace_bytes = attention_workspace;
  return shape;
}

KernelLimits attention_limits(const ModelConfig& config, const Policy& policy) {
  return HostAttention::limits(config.heads, config.head_dim, policy.block_sequences());
}

// [tensor of the pack][panel]; the shape's panels are the pack's, cut by the same rule.
std::vector<std::vector<Tier>> homes_in_pack(const Pack& pack, const ModelShape& shape,
                                             const PerTier<double>& shares) {
  std::vector<std::vector<Tier>> homes;
  for (const PackTensor& tensor : pack.tensors())
    homes.emplace_back(tensor.panels.size(), Tier::kHost);
  auto planned = panel_homes(shape, shares);
  for (std::size_t m = 0; m < planned.size(); ++m) {
    auto& panels = homes[static_cast<std::size_t>(pack.find(shape.matrices[m].name))];
    if (panels.size() != planned[m].size())
      throw FormatError(concat("tensor ", shape.matrices[m].name, " of ", pack.directory().string(),
                               " has ", panels.size(), " panels where this barge would cut ",
                               planned[m].size(), "; run `barge pack` again to rebuild it"));
    panels = std::move(planned[m]);
  }
  return homes;
}

}  // namespace

Stores::Stores(const Pack& pack, const Family& family, Backend& backend, Disk& disk,
               Budgets& budgets, const Engine::Options& options,
               const std::function<void(std::size_t, std::size_t)>& progress)
    : device_(backend.device()),
      policy_(on_device(options.policy, family.config().layers, device_)),
      device_draws_(!device_.unified() && !options.hash_logits &&
                    family.config().vocab <= kMostDrawnTokens),
      own_cpu_(policy_.cpu_attention && options.attention == nullptr
                   ? make_cpu_backend(
                         {.threads = HostAttention::threads(options.attention_threads)}, budgets)
                   : nullptr),
      cpu_(!policy_.cpu_attention ? nullptr
           : own_cpu_             ? own_cpu_.get()
                                  : options.attention),
      kernel_limits_(kernel_limits(family, policy_, options.compute, options.activation_bits)),
      shape_(shape_in_pack(
          pack, family, policy_, options.kv_group, kernel_limits_,
          backend.workspace_bytes(kernel_limits_),
          cpu_ == nullptr
              ? 0
              : cpu_->workspace_bytes(attention_limits(family.config(), policy_)).device)),
      footprint_(barge::footprint(shape_, policy_, device_.unified())),
      kernels_(backend.make_kernels(kernel_limits_)),
      buffers_(device_, footprint_),
      waits_(device_.clock(), options.trace) {
  const ModelConfig& config = family.config();
  const KvFormat format = kv_format_of(config, policy_.kv_bits, options.kv_group);
  kv_ = std::make_unique<KvStore>(
      KvStore::Options{.format = format,
                       .layers = config.layers,
                       .page_positions = policy_.page_positions,
                       .share = policy_.kv,
                       .capacity_bytes = footprint_.kv,
                       .swap_bytes = footprint_.kv_swap,
                       .staging_bytes = footprint_.kv_staging,
                       .host_staging_bytes = footprint_.kv_host_staging,
                       .disk_directory = options.disk_directory,
                       .attending_host = cpu_ ? &cpu_->device() : nullptr,
                       .device_layers = device_attention_layers(policy_, config.layers)},
      device_, disk, budgets.disk);
  weights_ = std::make_unique<WeightStore>(
      pack, Sweep::visits(pack, family), homes_in_pack(pack, shape_, policy_.weights), device_,
      disk,
      WeightStore::Options{.ring_bytes = footprint_.weight_ring,
                           .staging_bytes = footprint_.weight_staging},
      progress);
  if (cpu_ != nullptr)
    host_ = std::make_unique<HostAttention>(
        *cpu_, device_,
        HostAttention::Shape{.format = format,
                             .page_positions = policy_.page_positions,
                             .heads = config.heads,
                             .scale = attention_scale(config),
                             .results = options.compute,
                             .rows = policy_.block_sequences()},
        footprint_);
  sweep_ = std::make_unique<Sweep>(pack, family, *weights_, *kv_, *kernels_, device_, host_.get(),
                                   buffers_, waits_,
                                   Sweep::Options{.compute = options.compute,
                                                  .kv = format,
                                                  .page_positions = policy_.page_positions,
                                                  .kv_staging_bytes = footprint_.kv_staging});
  int longest = std::min(policy_.max_positions, config.context);
  if (config.sliding_window > 0) longest = std::min(longest, config.sliding_window);
  max_positions_ = longest_that_fits(longest);
  if (max_positions_ == 0)
    throw ConfigError("the KV cache has no room for a single position: give it more memory");
}

Stores::~Stores() {
  sweep_->abandon();
  try {
    device_.compute().record().wait();
  } catch (...) {  // reported by the sweep that failed
  }
}

BlockLimits Stores::limits() const {
  return {.sequences = policy_.block_sequences(),
          .micro_batch_sequences = policy_.gpu_batch_size,
          .rows = policy_.sweep_tokens,
          .wanted_rows = policy_.block_sequences(),
          .staging_bytes = footprint_.kv_staging,
          .in_halves = cpu_ != nullptr,
          .device_draws = device_draws_};
}

int Stores::longest_that_fits(int positions) const {
  const auto fits = [this](int n) {
    const PerTier<std::size_t> bytes = kv_->bytes(kv_->place(n), n);
    return std::all_of(kTiers.begin(), kTiers.end(),
                       [&](Tier tier) { return bytes[tier] <= kv_->capacity()[tier]; });
  };
  if (fits(positions)) return positions;
  int most = 0, least = positions;  // fits(most), not fits(least)
  while (least - most > 1) {
    const int middle = (least + most) / 2;
    (fits(middle) ? most : least) = middle;
  }
  return most;
}

}  // namespace barge
