#include "policy/search.h"

#include <algorithm>
#include <cmath>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/row_tile.h"
#include "policy/candidates.h"

namespace barge {
namespace {

// Shares in whole thousandths, in favour of the disk: the rest must fit to the byte.
PerTier<double> in_thousandths(const PerTier<double>& wanted) {
  PerTier<double> share;
  share.device = std::floor(wanted.device * 1000 + 1e-6) / 1000;
  share.host = std::floor(wanted.host * 1000 + 1e-6) / 1000;
  if (wanted.disk < 5e-4) {  // none on disk: keep it so
    if (share.device > 0 && share.host > 0)
      share.host = 1 - share.device;
    else
      (share.device > 0 ? share.device : share.host) = 1;
  }
  share.disk = std::max(0.0, 1 - share.device - share.host);
  if (share.disk < 1e-9) share.disk = 0;
  return share;
}

// Moves weights, then KV, from a memory to the next slower home until the footprint fits: buffers
// that the programme saw as constants (and whole panels and pages) can leave it a little over.
std::optional<Plan> fit(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
                        const TierLimits& limits, Policy policy, bool homes_are_fixed) {
  const ModelShape shape = shape_for(policy);
  for (int step = 0; step < 60; ++step) {
    const auto over =
        misfit({policy, footprint(shape, policy, profile.unified)}, limits, profile.unified);
    if (!over) return price(profile, shape_for, job, policy);
    if (homes_are_fixed || over->constraint == "disk") return std::nullopt;
    const Tier from = over->constraint == "host" ? Tier::kHost : Tier::kDevice;
    PerTier<double>& shares = policy.weights[from] > 0 ? policy.weights : policy.kv;
    const double moved = std::min(shares[from], 0.02);
    if (moved <= 0) return std::nullopt;
    shares[from] -= moved;
    if (shares[from] < 1e-9) shares[from] = 0;
    if (from == Tier::kDevice) shares.host += moved;
    shares.disk = std::max(0.0, 1 - shares.device - shares.host);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Infeasible> misfit(const Plan& plan, const TierLimits& limits, bool unified) {
  std::optional<Infeasible> worst;
  for (const auto& [tier, limit] :
       {std::pair{Tier::kDevice, limits.device}, std::pair{Tier::kHost, limits.host},
        std::pair{Tier::kDisk, limits.disk}}) {
    const std::size_t wanted = plan.footprint.total(tier, unified);
    if (wanted <= limit) continue;
    if (!worst || wanted - limit > worst->missing_bytes)
      worst = Infeasible{std::string(name_of(tier)), wanted - limit, wanted, plan};
  }
  return worst;
}

Plan price(const Profile& profile, const ShapeFor& shape_for, const Workload& job, Policy policy) {
  const ModelShape shape = shape_for(policy);
  return {policy, footprint(shape, policy, profile.unified), predict(profile, shape, job, policy)};
}

namespace {

// The best homes for a policy that is otherwise complete, if there are any that fit.
struct Candidate {
  std::optional<Plan> plan;
  std::optional<Infeasible> miss;
};

Candidate candidate(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
                    const TierLimits& limits, const PolicyWishes& wishes, Policy policy) {
  const ModelShape shape = shape_for(policy);
  if (wishes.percent) {
    set_percent(policy, *wishes.percent);
  } else if (const auto placed =
                 place(profile, shape, job, limits, policy, policy.block_sequences())) {
    policy.weights = in_thousandths(placed->weights);
    policy.kv = in_thousandths(placed->kv);
  } else {
    policy.weights = policy.kv = {0, 0, 1};
  }
  Candidate result;
  result.plan = fit(profile, shape_for, job, limits, policy, wishes.percent.has_value());
  if (!result.plan)
    result.miss = misfit(price(profile, shape_for, job, policy), limits, profile.unified);
  return result;
}

std::string message_of(const Infeasible& miss) {
  const Policy& p = miss.nearest.policy;
  return concat("nothing fits: the nearest policy (", p.num_gpu_batches, " micro-batches of ",
                p.gpu_batch_size, " sequences of up to ", p.max_positions, " tokens) needs ",
                format_bytes(miss.missing_bytes), " more ", miss.constraint, " space, ",
                format_bytes(miss.smallest_bytes), " in all; raise ",
                miss.constraint == "host"     ? "--cpu-memory"
                : miss.constraint == "device" ? "--gpu-memory"
                                              : "--disk-space",
                " or lower --max-model-len");
}

}  // namespace

InfeasibleError::InfeasibleError(Infeasible what)
    : ConfigError(message_of(what)), infeasible(std::move(what)) {}

namespace {

constexpr int kRounds = 8;  // of refinement
// The CPU attends only for more than this: its rates are less sure than the device's.
constexpr double kWorthwhile = 1.03;

class Search {
 public:
  Search(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
         const TierLimits& limits, const PolicyWishes& wishes, bool cpu_attention)
      : profile_(profile),
        shape_for_(shape_for),
        job_(job),
        limits_(limits),
        wishes_(wishes),
        cpu_attention_(cpu_attention) {}

  void try_micro_batches(int count, int page) {
    Policy policy = wished(count, page);
    policy.gpu_batch_size = wishes_.gpu_batch_size.value_or(std::max(1, 64 / count));
    policy.sweep_tokens = steady_rows(job_, policy.block_sequences());
    const ModelShape shape = shape_for_(policy);
    rings_ = rings(shape, profile_.unified, limits_);
    policy.ring_bytes = rings_.front();
    auto free = place(profile_, shape, job_, limits_, policy, std::nullopt);
    if (!free) {  // perhaps the disk has no room for swapping
      Policy exact = policy;
      exact.over_commit = false;
      free = place(profile_, shape, job_, limits_, exact, std::nullopt);
    }
    // What the programme can't beat needn't be tried; it may be a little off.
    if (free && best_ && 0.9 / free->seconds_per_token < best_->predicted.generated_tokens_per_s &&
        job_.num_prompts > free->block)
      return;
    const double block = free ? free->block : 1;
    for (const int size : batch_sizes(wishes_, job_, block, count))
      for (const int rows : sweep_sizes(wishes_, job_, size * count)) {
        policy.gpu_batch_size = size;
        policy.sweep_tokens = rows;
        if (try_policy(policy) && free) best_->worth = free->worth;
      }
  }

  // Sizes and rows beside the best ones, as long as that brings something.
  void refine() {
    for (int round = 0; best_ && round < kRounds; ++round) {
      const Policy around = best_->policy;
      bool better = false;
      for (const double factor : {0.75, 0.85, 0.94, 1.07, 1.2, 1.4}) {
        Policy policy = around;
        if (!wishes_.sweep_tokens) {
          policy.sweep_tokens = std::max(
              policy.block_sequences(),
              static_cast<int>(std::lround(around.sweep_tokens * factor / kRowTile) * kRowTile));
          if (policy.sweep_tokens != around.sweep_tokens) better = try_policy(policy) || better;
        }
        policy.gpu_batch_size = static_cast<int>(std::lround(around.gpu_batch_size * factor));
        if (wishes_.gpu_batch_size || policy.gpu_batch_size < 1 ||
            policy.block_sequences() > job_.num_prompts + policy.num_gpu_batches - 1)
          continue;
        policy.sweep_tokens =
            wishes_.sweep_tokens.value_or(steady_rows(job_, policy.block_sequences()));
        if (policy.sweep_tokens >= policy.block_sequences()) better = try_policy(policy) || better;
      }
      if (!better) return;
    }
  }

  Plan best() const {
    if (best_) return *best_;
    if (nearest_) throw InfeasibleError(*nearest_);
    throw ConfigError("no block size could be priced");
  }

 private:
  Policy wished(int count, int page) const {
    Policy policy;
    policy.num_gpu_batches = count;
    policy.page_positions = page;
    // Over a link, the next layer's KV cache comes while the MLP computes.
    if (!profile_.unified) policy.staged_batches = count + 1;
    policy.weight_bits = wishes_.weight_bits;
    policy.kv_bits = wishes_.kv_bits;
    policy.cpu_attention = cpu_attention_;
    policy.max_positions = wishes_.max_positions;
    policy.kv_positions = planned_positions(job_, wishes_.max_positions);
    return policy;
  }

  // Whether it is the best so far.
  bool try_policy(Policy policy) {
    Candidate next = candidate(profile_, shape_for_, job_, limits_, wishes_, policy);
    // Where that doesn't fit, do without what only makes things smoother.
    while (next.miss) {
      if (next.miss->constraint == "disk" && policy.over_commit)
        policy.over_commit = false;
      else if (policy.staged_batches > 2)
        policy.staged_batches = 2;
      else if (policy.ring_bytes > 0)
        policy.ring_bytes = *(std::find(rings_.begin(), rings_.end(), policy.ring_bytes) + 1);
      else
        break;
      next = candidate(profile_, shape_for_, job_, limits_, wishes_, policy);
    }
    if (next.miss && (!nearest_ || next.miss->missing_bytes < nearest_->missing_bytes))
      nearest_ = next.miss;
    if (!next.plan || (best_ && next.plan->predicted.generated_tokens_per_s <=
                                    1.001 * best_->predicted.generated_tokens_per_s))
      return false;
    const auto worth = best_ ? best_->worth : std::nullopt;
    best_ = next.plan;
    best_->worth = worth;
    return true;
  }

  const Profile& profile_;
  const ShapeFor& shape_for_;
  const Workload& job_;
  const TierLimits& limits_;
  const PolicyWishes& wishes_;
  const bool cpu_attention_;
  std::vector<std::size_t> rings_;  // of the model, the best first, ending with 0
  std::optional<Plan> best_;
  std::optional<Infeasible> nearest_;
};

Plan search(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
            const TierLimits& limits, const PolicyWishes& wishes, bool cpu_attention) {
  // Over a link, KV cache in small pieces lets weights pass between them.
  std::vector<int> counts{1, 2, 4, 8};
  if (!profile.unified) std::reverse(counts.begin(), counts.end());
  if (wishes.num_gpu_batches) counts = {*wishes.num_gpu_batches};
  Search search(profile, shape_for, job, limits, wishes, cpu_attention);
  for (const int count : counts) {
    if (count > 1 && count > job.num_prompts && !wishes.num_gpu_batches) continue;
    for (const int page : page_sizes(wishes)) search.try_micro_batches(count, page);
  }
  search.refine();
  return search.best();
}

}  // namespace

Plan search(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
            const TierLimits& limits, const PolicyWishes& wishes) {
  const auto plan = [&](bool cpu_attention) {
    return search(profile, shape_for, job, limits, wishes, cpu_attention);
  };
  if (wishes.cpu_attention != CpuAttention::kAuto)
    return plan(wishes.cpu_attention == CpuAttention::kOn);
  if (profile.host_attention_of(wishes.kv_bits) == nullptr) return plan(false);
  std::optional<Plan> by_cpu;
  try {
    by_cpu = plan(true);
  } catch (const InfeasibleError&) {  // then let the device's own plan say why
  }
  if (!by_cpu) return plan(false);
  try {
    Plan by_device = plan(false);
    const bool better = by_cpu->predicted.generated_tokens_per_s >
                        kWorthwhile * by_device.predicted.generated_tokens_per_s;
    return better ? *by_cpu : by_device;
  } catch (const InfeasibleError&) {
    return *by_cpu;
  }
}

}  // namespace barge
