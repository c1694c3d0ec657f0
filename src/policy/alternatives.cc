#include "policy/alternatives.h"

#include <algorithm>
#include <cmath>

namespace barge {
namespace {

// A share moved between two homes, as far as there is something to move.
PerTier<double> moved(PerTier<double> shares, Tier from, Tier to) {
  const double part = std::min(0.1, shares[from]);
  shares[from] -= part;
  shares[to] += part;
  return shares;
}

}  // namespace

std::vector<Neighbour> neighbours(const Profile& profile, const ShapeFor& shape_for,
                                  const Workload& job, const TierLimits& limits,
                                  const Policy& chosen) {
  std::vector<Neighbour> all;
  const auto add = [&](std::string change, Policy policy) {
    if (policy == chosen) return;
    policy.sweep_tokens = std::max(policy.sweep_tokens, policy.block_sequences());
    Plan plan = price(profile, shape_for, job, policy);
    auto miss = misfit(plan, limits, profile.unified);
    all.push_back({std::move(change), std::move(plan), std::move(miss)});
  };
  const auto with = [&](auto change) {
    Policy policy = chosen;
    change(policy);
    return policy;
  };
  for (const double factor : {0.5, 2.0}) {
    const int size = std::max(1, static_cast<int>(chosen.gpu_batch_size * factor));
    if (size != chosen.gpu_batch_size)
      add(concat("micro-batches of ", size, " sequences"), with([&](Policy& p) {
            p.gpu_batch_size = size;
            p.sweep_tokens = steady_rows(job, p.block_sequences());
          }));
    const int count = std::max(1, static_cast<int>(chosen.num_gpu_batches * factor));
    if (count != chosen.num_gpu_batches)
      add(concat(count, " micro-batch", count == 1 ? "" : "es"), with([&](Policy& p) {
            p.num_gpu_batches = count;
            p.sweep_tokens = steady_rows(job, p.block_sequences());
          }));
    const int rows = static_cast<int>(chosen.sweep_tokens * factor);
    add(concat("at most ", std::max(rows, chosen.block_sequences()), " tokens a sweep"),
        with([&](Policy& p) { p.sweep_tokens = rows; }));
    const int positions = std::max(1, static_cast<int>(chosen.page_positions * factor));
    add(concat("pages of ", positions, " positions"),
        with([&](Policy& p) { p.page_positions = positions; }));
  }
  if (profile.host_attention_of(chosen.kv_bits) != nullptr)
    add(chosen.cpu_attention ? "decode attention on the device" : "decode attention on the CPU",
        with([](Policy& p) { p.cpu_attention = !p.cpu_attention; }));
  std::vector<Tier> homes{Tier::kHost, Tier::kDisk};
  if (!profile.unified) homes.insert(homes.begin(), Tier::kDevice);
  for (const Tier from : homes)
    for (const Tier to : homes) {
      if (from == to) continue;
      const auto name = [&](const char* what) {
        return concat("a tenth of ", what, " from ", name_of(from), " to ", name_of(to));
      };
      add(name("the weights"), with([&](Policy& p) { p.weights = moved(p.weights, from, to); }));
      add(name("the KV cache"), with([&](Policy& p) { p.kv = moved(p.kv, from, to); }));
    }
  return all;
}

std::vector<Plan> frontier(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
                           const TierLimits& limits, const PolicyWishes& wishes) {
  std::vector<Plan> plans;
  for (double lines = 1; lines <= std::min(job.num_prompts, 4096.0);
       lines = std::ceil(lines * 1.4)) {
    Workload block = job;
    block.num_prompts = lines;
    try {
      plans.push_back(search(profile, shape_for, block, limits, wishes));
    } catch (const InfeasibleError&) {
      break;  // more lines need no less
    }
  }
  // From the slowest down: who takes longer must bring more.
  std::sort(plans.begin(), plans.end(),
            [](const Plan& a, const Plan& b) { return a.predicted.seconds < b.predicted.seconds; });
  std::vector<Plan> best;
  for (Plan& plan : plans)
    if (best.empty() ||
        plan.predicted.generated_tokens_per_s > best.back().predicted.generated_tokens_per_s)
      best.push_back(std::move(plan));
  return best;
}

}  // namespace barge
