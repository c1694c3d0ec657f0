#include "policy/search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/row_tile.h"
#include "policy/lp.h"

namespace barge {
namespace {

int planned_positions(const Workload& job, int max_positions) {
  // The longer ones of a mixed job need more than the mean; a quarter more is room for them.
  double positions = 1.25 * (job.prompt_len + job.gen_len);
  if (job.longest > 0) positions = std::min(positions, job.longest);
  return std::clamp(static_cast<int>(std::ceil(positions)), 1, max_positions);
}

// Rows of a sweep that are worth trying: the steady state's, and more for a job of one block, whose
// prompts can all go first.
std::vector<int> sweep_sizes(const PolicyWishes& wishes, const Workload& job, int sequences) {
  if (wishes.sweep_tokens) return {std::max(*wishes.sweep_tokens, sequences)};
  const auto in_tiles = [](double rows) {
    return static_cast<int>(std::ceil(rows / kRowTile) * kRowTile);
  };
  const double steady = sequences * (job.prompt_len + job.gen_len - 1) / job.gen_len;
  const int least = in_tiles(sequences);
  std::vector<int> sizes;
  for (const double rows : {steady, 256.0, 512.0, 2048.0})
    sizes.push_back(std::max(least, in_tiles(std::min(rows, 4096.0))));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Pages that are worth trying: small ones waste little host memory on tails, large ones make large
// requests.
std::vector<int> page_sizes(const PolicyWishes& wishes) {
  if (wishes.page_positions > 0) return {wishes.page_positions};
  return {16, 64};
}

// Homes of weights and KV for a block of fixed size: minimise the seconds of a sweep, ties by less
// disk, then less memory. nullopt where no homes fit.
std::optional<Policy> solve_homes(const Profile& profile, const ModelShape& shape,
                                  const SweepCost& cost, const TierLimits& limits, Policy policy) {
  const bool unified = profile.unified;
  // What the buffers take whatever the homes are, and what one whole share of each kind takes:
  // read off the footprint itself, so that the programme prices what the run will allocate.
  const auto with = [&](PerTier<double> weights, PerTier<double> kv) {
    policy.weights = weights;
    policy.kv = kv;
    return footprint(shape, policy, unified);
  };
  const PerTier<double> kHost{0, 1, 0}, kDisk{0, 0, 1};
  const Footprint all_disk = with(kDisk, kDisk), all_host = with(kHost, kHost);
  const double weight_bytes = static_cast<double>(all_host.weights.host);
  const double kv_bytes = static_cast<double>(all_host.kv.host);
  const double kv_disk_bytes = static_cast<double>(all_disk.kv.disk);
  const double tail_bytes = static_cast<double>(all_disk.kv.host);
  const auto buffers = [&](const Footprint& f, Tier tier) {
    return static_cast<double>(f.total(tier, unified)) -
           static_cast<double>(tier == Tier::kHost ? f.weights.host + f.kv.host : 0);
  };
  // Buffers that exist only when something streams are counted as if it did.
  const double device_buffers = unified ? 0 : buffers(all_disk, Tier::kDevice);
  const double host_buffers = buffers(all_disk, Tier::kHost);

  // In units of the time to compute, so that the tie-breaks stand well above the solver's
  // tolerance of 1e-7: a thousandth of a sweep is no price for leaving the disk alone.
  constexpr double tie = 1e-3;
  LinearProgram lp;
  const int t = lp.add_variable("sweep seconds", 1 / cost.compute());
  const std::array w{lp.add_variable("weights device", unified ? 1e3 : tie),
                     lp.add_variable("weights host", tie),
                     lp.add_variable("weights disk", 2 * tie)};
  const std::array y{lp.add_variable("kv device", unified ? 1e3 : tie),
                     lp.add_variable("kv host", tie), lp.add_variable("kv disk", 2 * tie)};
  lp.add_equal("all weights", {{w[0], 1}, {w[1], 1}, {w[2], 1}}, 1);
  lp.add_equal("all kv", {{y[0], 1}, {y[1], 1}, {y[2], 1}}, 1);
  lp.add_at_most("compute", {{t, -1}}, -cost.compute());
  lp.add_at_most("disk", {{w[2], cost.weights_read}, {y[2], cost.kv_read + cost.kv_write}, {t, -1}},
                 0);
  if (!unified) {
    lp.add_at_most("link down",
                   {{w[1], cost.weights_down},
                    {w[2], cost.weights_down},
                    {y[1], cost.kv_down},
                    {y[2], cost.kv_down},
                    {t, -1}},
                   0);
    lp.add_at_most("link up", {{y[1], cost.kv_up}, {y[2], cost.kv_up}, {t, -1}}, 0);
    lp.add_at_most("device memory", {{w[0], weight_bytes}, {y[0], kv_bytes}},
                   static_cast<double>(limits.device) - device_buffers);
  }
  lp.add_at_most("host memory", {{w[1], weight_bytes}, {y[1], kv_bytes}, {y[2], tail_bytes}},
                 static_cast<double>(limits.host) - host_buffers);
  lp.add_at_most(
      "disk space", {{y[2], kv_disk_bytes}},
      static_cast<double>(limits.disk) - static_cast<double>(all_disk.pack + all_disk.kv_swap));
  const auto solution = lp.solve();
  if (solution.status != LinearProgram::Status::kOptimal) return std::nullopt;
  // Shares in whole thousandths, in favour of the disk: the rest must fit to the byte.
  const auto shares = [&](const std::array<int, 3>& of) {
    PerTier<double> share;
    share.device = std::floor(solution.x[static_cast<std::size_t>(of[0])] * 1000) / 1000;
    share.host = std::floor(solution.x[static_cast<std::size_t>(of[1])] * 1000) / 1000;
    if (solution.x[static_cast<std::size_t>(of[2])] < 5e-4) {  // none on disk: keep it so
      if (share.device > 0 && share.host > 0)
        share.host = 1 - share.device;
      else
        (share.device > 0 ? share.device : share.host) = 1;
    }
    share.disk = std::max(0.0, 1 - share.device - share.host);
    if (share.disk < 1e-9) share.disk = 0;
    return share;
  };
  policy.weights = shares(w);
  policy.kv = shares(y);
  return policy;
}

// Moves weights, then KV, from memory to disk until the footprint fits: buffers that the
// programme saw as constants (and whole panels and pages) can leave it a little over.
std::optional<Plan> fit(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
                        const TierLimits& limits, Policy policy, bool homes_are_fixed) {
  for (int step = 0; step < 60; ++step) {
    Plan plan = price(profile, shape_for, job, policy);
    const auto over = misfit(plan, limits, profile.unified);
    if (!over) return plan;
    if (homes_are_fixed || over->constraint == "disk") return std::nullopt;
    const Tier from = over->constraint == "host" ? Tier::kHost : Tier::kDevice;
    PerTier<double>& shares = policy.weights[from] > 0 ? policy.weights : policy.kv;
    const double moved = std::min(shares[from], 0.02);
    if (moved <= 0) return std::nullopt;
    shares[from] -= moved;
    if (shares[from] < 1e-9) shares[from] = 0;
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
      worst = Infeasible{std::string(name_of(tier)), wanted - limit, plan};
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
  policy.ring_bytes = 8 * shape.largest_panel_bytes();
  if (wishes.percent) {
    set_percent(policy, *wishes.percent);
  } else {
    const SweepLoad load =
        one_block(job, policy) ? decode_load(job, policy) : steady_load(job, policy);
    const auto solved =
        solve_homes(profile, shape, sweep_cost(profile, shape, load, policy), limits, policy);
    if (solved)
      policy = *solved;
    else
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
                format_bytes(miss.missing_bytes), " more ", miss.constraint, " space; raise ",
                miss.constraint == "host"     ? "--cpu-memory"
                : miss.constraint == "device" ? "--gpu-memory"
                                              : "--disk-space",
                " or lower --max-model-len");
}

}  // namespace

InfeasibleError::InfeasibleError(Infeasible what)
    : ConfigError(message_of(what)), infeasible(std::move(what)) {}

Plan search(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
            const TierLimits& limits, const PolicyWishes& wishes) {
  std::vector<int> sizes{1, 2, 4, 8, 16, 32, 64, 128, 256}, counts{1, 2, 4, 8};
  if (wishes.gpu_batch_size) sizes = {*wishes.gpu_batch_size};
  if (wishes.num_gpu_batches) counts = {*wishes.num_gpu_batches};

  std::optional<Plan> best;
  std::optional<Infeasible> nearest;
  for (const int size : sizes)
    for (const int count : counts) {
      if (!wishes.gpu_batch_size && size * count > 1 && size * count > 2 * job.num_prompts)
        continue;  // the job would never fill it
      for (const int rows : sweep_sizes(wishes, job, size * count))
        for (const int page : page_sizes(wishes)) {
          Policy policy;
          policy.gpu_batch_size = size;
          policy.num_gpu_batches = count;
          policy.sweep_tokens = rows;
          policy.page_positions = page;
          policy.weight_bits = wishes.weight_bits;
          policy.kv_bits = wishes.kv_bits;
          policy.cpu_attention = wishes.cpu_attention;
          policy.max_positions = wishes.max_positions;
          policy.kv_positions = planned_positions(job, wishes.max_positions);
          Candidate next = candidate(profile, shape_for, job, limits, wishes, policy);
          if (next.miss && next.miss->constraint == "disk") {  // then do without room for swapping
            policy.over_commit = false;
            next = candidate(profile, shape_for, job, limits, wishes, policy);
          }
          if (next.miss && (!nearest || next.miss->missing_bytes < nearest->missing_bytes))
            nearest = next.miss;
          if (next.plan && (!best || next.plan->predicted.generated_tokens_per_s >
                                         1.001 * best->predicted.generated_tokens_per_s))
            best = next.plan;
        }
    }
  if (best) return *best;
  if (nearest) throw InfeasibleError(*nearest);
  throw ConfigError("no block size could be priced");
}

}  // namespace barge
