// The plan in words and in JSON.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/session.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/progress.h"

namespace barge {
namespace {

std::string number(double x, int digits = 1) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

std::string row(const std::string& name, const PerTier<std::size_t>& bytes) {
  char text[160];
  std::snprintf(text, sizeof text, "  %-14s %12s %12s %12s\n", name.c_str(),
                format_bytes(bytes.device).c_str(), format_bytes(bytes.host).c_str(),
                format_bytes(bytes.disk).c_str());
  return text;
}

PerTier<std::size_t> totals(const Plan& plan, bool unified) {
  PerTier<std::size_t> sum;
  for (const Tier tier : kTiers) sum[tier] = plan.footprint.total(tier, unified);
  return sum;
}

}  // namespace

std::string describe_plan(const Plan& plan, const TierLimits& limits, bool unified) {
  const Policy& p = plan.policy;
  const Footprint& f = plan.footprint;
  std::string text = concat(
      "plan: ", p.num_gpu_batches, " micro-batch", p.num_gpu_batches == 1 ? "" : "es", " of ",
      p.gpu_batch_size, " sequences, at most ", p.sweep_tokens, " tokens a sweep, ", p.weight_bits,
      "-bit weights, ", p.kv_bits, "-bit KV cache in pages of ", p.page_positions, " positions",
      attends_on_host(p, unified) ? ", decode attention on the CPU\n" : "\n");
  char head[96];
  std::snprintf(head, sizeof head, "  %-14s %12s %12s %12s\n", "", "device", "host", "disk");
  PerTier<std::size_t> buffers = totals(plan, unified);
  buffers.device -= unified ? 0 : f.weights.device + f.kv.device;
  buffers.host -= f.weights.host + f.kv.host + (unified ? f.weights.device + f.kv.device : 0);
  buffers.disk = 0;
  text += head + row("weights", f.weights) + row("KV cache", f.kv) +
          row("KV put aside", {0, 0, f.kv_swap}) + row("buffers", buffers) +
          row("all", totals(plan, unified)) +
          row("budget", {limits.device, limits.host, limits.disk});
  return text + concat("  predicted: ", number(plan.predicted.generated_tokens_per_s),
                       " generated tokens/s, ", number(plan.predicted.total_tokens_per_s),
                       " in all; a sweep takes ", number(plan.predicted.sweep_seconds, 3),
                       " s, bound by ", plan.predicted.bottleneck, "; the job takes ",
                       format_duration(plan.predicted.seconds));
}

nlohmann::json tiers_to_json(const PerTier<std::size_t>& bytes) {
  return {{"device", bytes.device}, {"host", bytes.host}, {"disk", bytes.disk}};
}

std::string infeasible_to_json(const Infeasible& miss, bool unified) {
  return nlohmann::json{{"infeasible",
                         {{"constraint", miss.constraint},
                          {"missing_bytes", miss.missing_bytes},
                          {"nearest",
                           {{"policy", nlohmann::json::parse(policy_to_json(miss.nearest.policy))},
                            {"bytes", tiers_to_json(totals(miss.nearest, unified))}}}}}}
      .dump();
}

std::string plan_to_json(const Plan& plan, bool unified) {
  const nlohmann::json json{{"policy", nlohmann::json::parse(policy_to_json(plan.policy))},
                            {"bytes", tiers_to_json(totals(plan, unified))},
                            {"predicted",
                             {{"generated_tokens_per_s", plan.predicted.generated_tokens_per_s},
                              {"total_tokens_per_s", plan.predicted.total_tokens_per_s},
                              {"sweep_seconds", plan.predicted.sweep_seconds},
                              {"seconds", plan.predicted.seconds}}},
                            {"bottleneck", plan.predicted.bottleneck}};
  return json.dump();
}

}  // namespace barge
