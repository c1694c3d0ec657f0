#include "policy/placement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/row_tile.h"
#include "policy/lp.h"

namespace barge {
namespace {

constexpr PerTier<double> kDevice{1, 0, 0}, kHost{0, 1, 0}, kDisk{0, 0, 1};
// No placement is worth choosing for less than this share of the time; well above the solver's
// tolerance of 1e-7.
constexpr double kTie = 1e-3;
constexpr double kGiB = 1024.0 * 1024 * 1024;

// Which homes are allowed, and with them, which buffers exist.
struct Case {
  PerTier<bool> weights, kv;
  // Homes whose footprint has just these buffers.
  PerTier<double> weights_home, kv_home;
};

std::vector<Case> cases(bool unified, bool cpu_attends) {
  struct Homes {
    PerTier<bool> allowed;
    PerTier<double> sample;
  };
  std::vector<Homes> weights, kv;
  if (unified) {
    weights = kv = {{{false, true, false}, kHost}, {{false, true, true}, kDisk}};
  } else {
    weights = {{{true, false, false}, kDevice}, {{true, true, true}, kDisk}};
    kv = {{{!cpu_attends, true, false}, kHost}, {{!cpu_attends, true, true}, kDisk}};
    if (!cpu_attends) kv.insert(kv.begin(), {{true, false, false}, kDevice});
  }
  std::vector<Case> all;
  for (const Homes& w : weights)
    for (const Homes& y : kv) all.push_back({w.allowed, y.allowed, w.sample, y.sample});
  return all;
}

struct Phase {
  double sweeps = 0;
  SweepCost cost;
};

// What a tier's bytes are made of: fixed + growing x block, beside weights and KV cache.
struct Growth {
  double fixed = 0, growing = 0;
};

class Program {
 public:
  Program(const Profile& profile, const ModelShape& shape, const Workload& job,
          const TierLimits& limits, const Policy& policy, std::optional<double> block)
      : profile_(profile),
        shape_(shape),
        job_(job),
        limits_(limits),
        policy_(policy),
        block_(block) {}

  std::optional<Placement> solve(const Case& homes) const {
    // What depends on the block is taken at the last solution's.
    double at = block_.value_or(most_sequences());
    std::optional<Placement> found;
    for (int i = 0; i < (block_ ? 1 : 4); ++i) {
      const auto next = solve_at(homes, at);
      if (!next) return found;
      found = next;
      if (std::abs(next->block - at) < 0.5) break;
      at = std::max(1.0, next->block);
    }
    return found;
  }

 private:
  double most_sequences() const { return std::max(1.0, std::min(job_.num_prompts, 4096.0)); }

  Policy with_block(double sequences) const {
    Policy policy = policy_;
    policy.gpu_batch_size =
        std::max(1, static_cast<int>(std::lround(sequences / policy.num_gpu_batches)));
    if (!block_) policy.sweep_tokens = steady_rows(job_, policy.block_sequences());
    return policy;
  }

  std::vector<Phase> phases(const Policy& policy) const {
    const SweepPricer pricer(profile_, shape_, policy);
    if (!block_ || !one_block(job_, policy)) return {{1, pricer.cost(steady_load(job_, policy))}};
    const double lines = job_.num_prompts, s = job_.prompt_len, n = job_.gen_len;
    const double prompts = job_.shared_prefix + lines * job_.own_prompt();
    const double sweeps = std::ceil(prompts / policy.sweep_tokens), rows = prompts / sweeps;
    const double keys = lines * (s + n / 2);
    return {
        {sweeps, pricer.cost({.rows = rows,
                              .logits = lines / sweeps,
                              .prompt_keys = rows * (s - job_.own_prompt() / 2),
                              .reread_positions = sweeps > 1 ? s / 2 : 0})},
        {n - 1,
         pricer.cost({.rows = lines, .answers = lines, .logits = lines, .read_positions = keys})}};
  }

  std::optional<Placement> solve_at(const Case& homes, double block) const;
  PerTier<Growth> buffers(const Case& homes) const;

  const Profile& profile_;
  const ModelShape& shape_;
  const Workload& job_;
  const TierLimits& limits_;
  const Policy& policy_;
  const std::optional<double> block_;
};

// Read off the footprint itself at two sizes, so that the programme prices what the run will
// allocate.
PerTier<Growth> Program::buffers(const Case& homes) const {
  const auto bytes = [&](double sequences) {
    Policy policy = with_block(sequences);
    policy.weights = homes.weights_home;
    policy.kv = homes.kv_home;
    const Footprint f = footprint(shape_, policy, profile_.unified);
    PerTier<double> beside;
    for (const Tier tier : kTiers) {
      const std::size_t at_home = tier == Tier::kDisk ? f.kv.disk  // the pack is whole
                                                      : f.weights[tier] + f.kv[tier];
      beside[tier] = static_cast<double>(f.total(tier, profile_.unified) - at_home);
    }
    return beside;
  };
  PerTier<Growth> growth;
  const double few = block_.value_or(64 * policy_.num_gpu_batches), many = 4 * few;
  const PerTier<double> at_few = bytes(few);
  for (const Tier tier : kTiers) growth[tier].fixed = at_few[tier];
  if (block_) return growth;
  const PerTier<double> at_many = bytes(many);
  for (const Tier tier : kTiers) {
    growth[tier].growing = (at_many[tier] - at_few[tier]) / (many - few);
    growth[tier].fixed -= growth[tier].growing * few;
  }
  return growth;
}

std::optional<Placement> Program::solve_at(const Case& homes, double block) const {
  const bool unified = profile_.unified;
  const Policy sample = with_block(block);
  const double sequences = sample.block_sequences();  // whole micro-batches
  const std::vector<Phase> sweeps = phases(sample);
  double least = 0;  // time to compute: the unit of the objective
  for (const Phase& phase : sweeps) least += phase.sweeps * phase.cost.compute(0) / sequences;

  LinearProgram lp;
  const int beta = lp.add_variable("1 / block", 0);
  std::vector<int> tau;
  for (const Phase& phase : sweeps) tau.push_back(lp.add_variable("tau", phase.sweeps / least));
  const std::array w{lp.add_variable("weights device", 0), lp.add_variable("weights host", 0),
                     lp.add_variable("weights disk", 0)};
  const std::array y{lp.add_variable("kv device", 0), lp.add_variable("kv host", 0),
                     lp.add_variable("kv disk", 0)};
  lp.add_equal("all weights", {{w[0], 1}, {w[1], 1}, {w[2], 1}, {beta, -1}}, 0);
  lp.add_equal("all kv", {{y[0], 1}, {y[1], 1}, {y[2], 1}}, 1);
  for (const Tier tier : kTiers) {
    const auto i = static_cast<std::size_t>(tier);
    if (!homes.weights[tier]) lp.add_at_most("no such weights", {{w[i], 1}}, 0);
    if (!homes.kv[tier]) lp.add_at_most("no such kv", {{y[i], 1}}, 0);
  }
  if (block_)
    lp.add_equal("block", {{beta, 1}}, 1 / *block_);
  else
    lp.add_at_most("block", {{beta, -1}}, -1 / most_sequences());

  struct TimeRows {
    int compute, disk, down = -1, up = -1;
  };
  std::vector<TimeRows> rows;
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    const SweepCost& c = sweeps[i].cost;
    TimeRows r{};
    r.compute = lp.add_at_most("compute", {{tau[i], -1}}, -c.compute(0) / sequences);
    if (c.cpu_attends)  // to all of the KV cache
      lp.add_at_most("host attention", {{y[2], c.kv_read / sequences}, {tau[i], -1}},
                     -(c.host_attention + c.output) / sequences);
    r.disk = lp.add_at_most(
        "disk",
        {{w[2], c.weights_read}, {y[2], (c.kv_read + c.kv_write) / sequences}, {tau[i], -1}}, 0);
    if (!unified) {
      const double kv = c.kv_down / sequences;
      r.down = lp.add_at_most(
          "link down",
          {{w[1], c.weights_down}, {w[2], c.weights_down}, {y[1], kv}, {y[2], kv}, {tau[i], -1}},
          0);
      r.up = lp.add_at_most(
          "link up", {{y[1], c.kv_up / sequences}, {y[2], c.kv_up / sequences}, {tau[i], -1}}, 0);
    }
    rows.push_back(r);
  }

  const double pages = std::ceil(1.0 * sample.planned_positions() / sample.page_positions);
  const double page = static_cast<double>(page_bytes(shape_, sample)) * shape_.layers;
  const auto weight_bytes = static_cast<double>(shape_.weight_bytes());
  const double kv_bytes = pages * page;
  // In units of what a sequence's share of the model takes, so that rows are of like size.
  const double unit = 1 / (kv_bytes + weight_bytes / sequences);
  const PerTier<Growth> fixed = buffers(homes);
  const auto add_capacity = [&](const char* name, Tier tier, std::size_t limit,
                                LinearProgram::Terms terms) {
    const Growth& f = fixed[tier];
    for (auto& [variable, bytes] : terms) bytes *= unit;
    terms.emplace_back(beta, (f.fixed - static_cast<double>(limit)) * unit);
    return lp.add_at_most(name, terms, -f.growing * unit);
  };
  const int host = add_capacity("host memory", Tier::kHost, limits_.host,
                                {{w[1], weight_bytes}, {y[1], kv_bytes}, {y[2], page}});  // tails
  const int device = unified ? -1
                             : add_capacity("device memory", Tier::kDevice, limits_.device,
                                            {{w[0], weight_bytes}, {y[0], kv_bytes}});
  add_capacity("disk space", Tier::kDisk, limits_.disk, {{y[2], kv_bytes}});

  const auto fastest = lp.solve();
  if (fastest.status != LinearProgram::Status::kOptimal) return std::nullopt;
  // Of those that are as fast: the largest block, over which a sweep's fixed costs are spread, then
  // less disk. Whole shares are counted: a weight's is w / beta, beta about 1 / sequences.
  LinearProgram::Terms time;
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    time.emplace_back(tau[i], sweeps[i].sweeps / least);
    lp.set_cost(tau[i], 0);
  }
  lp.add_at_most("as fast", time, fastest.objective * (1 + 1e-5));
  lp.set_cost(beta, 100 * sequences);
  lp.set_cost(w[2], sequences);
  lp.set_cost(y[2], 1);
  const auto solution = lp.solve();
  if (solution.status != LinearProgram::Status::kOptimal) return std::nullopt;
  const auto value = [&](int variable) { return solution.x[static_cast<std::size_t>(variable)]; };
  const double b = value(beta);
  if (!(b > 0)) return std::nullopt;

  Placement found;
  found.block = 1 / b;
  found.weights = {value(w[0]) / b, value(w[1]) / b, value(w[2]) / b};
  found.kv = {value(y[0]), value(y[1]), value(y[2])};
  double total = 0;
  for (std::size_t i = 0; i < sweeps.size(); ++i) total += sweeps[i].sweeps * value(tau[i]);
  // Generated by a sequence of the block in `total`; of one block, there may be fewer lines.
  const double tokens =
      sweeps.size() > 1 ? job_.gen_len * std::min(1.0, job_.num_prompts / sequences) : 1;
  found.seconds_per_token = total / tokens;
  // A row's price is what the objective gains where its bound is raised by one; the time is that
  // times `least`. Tokens/s are tokens / total.
  const auto gain = [&](int row, double raised) {
    if (row < 0) return 0.0;
    const double price = fastest.prices[static_cast<std::size_t>(row)] * least;
    return std::max(0.0, -price * raised) * tokens / (total * total);
  };
  Worth& worth = found.worth;
  worth.host_gib = gain(host, b * kGiB * unit);
  worth.device_gib = gain(device, b * kGiB * unit);
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    const SweepCost& c = sweeps[i].cost;
    const double used = value(tau[i]);  // where a row has a price, it is as long as tau
    worth.disk_gbps += gain(rows[i].disk, used * 1e9 / profile_.disk_read.most());
    if (!unified)
      worth.link_gbps += gain(rows[i].down, used * 1e9 / profile_.link_down) +
                         gain(rows[i].up, used * 1e9 / profile_.link_up);
    const double rate = profile_.products_of(policy_.weight_bits).most();
    worth.device_tflops += gain(rows[i].compute, (c.products + c.output) / sequences * 1e12 / rate);
  }
  return found;
}

}  // namespace

int steady_rows(const Workload& job, int sequences) {
  const double rows = sequences * (job.own_prompt() + job.gen_len - 1) / job.gen_len;
  return static_cast<int>(std::ceil(std::max<double>(rows, sequences) / kRowTile) * kRowTile);
}

std::optional<Placement> place(const Profile& profile, const ModelShape& shape, const Workload& job,
                               const TierLimits& limits, const Policy& policy,
                               std::optional<double> block) {
  const Program program(profile, shape, job, limits, policy, block);
  std::optional<Placement> best;
  const bool cpu_attends = attends_on_host(policy, profile.unified);
  for (const Case& homes : cases(profile.unified, cpu_attends)) {
    const auto next = program.solve(homes);
    if (next && (!best || next->seconds_per_token < best->seconds_per_token * (1 - kTie)))
      best = next;
  }
  return best;
}

}  // namespace barge
