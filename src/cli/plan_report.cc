// Plans in words and in JSON.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/planning.h"
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

// The one that is waited for longest is marked.
std::string seconds_of(const ResourceSeconds& sweep, bool unified) {
  std::string text;
  const auto add = [&](const char* name, double seconds) {
    const bool longest = seconds == sweep.longest();
    text += concat(text.empty() ? "" : ", ", name, " ", number(seconds, 3), " s",
                   longest ? " (longest)" : "");
  };
  add("compute", sweep.compute);
  if (!unified) add("link down", sweep.link_down);
  if (!unified) add("link up", sweep.link_up);
  add("disk", sweep.disk());
  if (sweep.host_attention > 0) add("CPU attention", sweep.host_attention);
  return text;
}

std::string describe(const Worth& worth, bool unified) {
  std::string text;
  if (!unified) text += concat("1 GiB more of device memory ", number(worth.device_gib, 3), ", ");
  text += concat("1 GiB more of host memory ", number(worth.host_gib, 3));
  if (!unified) text += concat(", 1 GB/s more of link ", number(worth.link_gbps, 3));
  return text + concat(", 1 GB/s more of disk ", number(worth.disk_gbps, 3),
                       ", 1 Top/s more of compute ", number(worth.device_tflops, 3));
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
  text += concat("  predicted: ", number(plan.predicted.generated_tokens_per_s),
                 " generated tokens/s, ", number(plan.predicted.total_tokens_per_s),
                 " in all; a sweep takes ", number(plan.predicted.sweep_seconds, 3),
                 " s, bound by ", plan.predicted.bottleneck, "; the job takes ",
                 format_duration(plan.predicted.seconds));
  text += concat("\n  a sweep asks: ", seconds_of(plan.predicted.sweep, unified));
  if (plan.worth) text += concat("\n  worth, tokens/s: ", describe(*plan.worth, unified));
  return text;
}

std::string describe_neighbours(const Plan& plan, const std::vector<Neighbour>& neighbours) {
  std::string text = "  what else there is, against the plan's tokens/s:";
  for (const Neighbour& other : neighbours) {
    char line[256];
    const double share =
        other.plan.predicted.generated_tokens_per_s / plan.predicted.generated_tokens_per_s;
    std::snprintf(line, sizeof line, "\n    %-52s %6.1f %%  ", other.change.c_str(), share * 100);
    text += line;
    if (other.miss)
      text += concat("doesn't fit: ", format_bytes(other.miss->missing_bytes), " more of the ",
                     other.miss->constraint);
    else
      text += concat("bound by ", other.plan.predicted.bottleneck);
  }
  return text;
}

std::string describe_frontier(const std::vector<Plan>& plans) {
  std::string text = "  block   latency    tokens/s  bound by";
  for (const Plan& plan : plans) {
    char line[160];
    std::snprintf(line, sizeof line, "\n  %5d %9s %11.2f  %s", plan.policy.block_sequences(),
                  format_duration(plan.predicted.seconds).c_str(),
                  plan.predicted.generated_tokens_per_s, plan.predicted.bottleneck);
    text += line;
  }
  return text;
}

nlohmann::json tiers_to_json(const PerTier<std::size_t>& bytes) {
  return {{"device", bytes.device}, {"host", bytes.host}, {"disk", bytes.disk}};
}

nlohmann::json infeasible_to_json(const Infeasible& miss, bool unified) {
  return {{"infeasible",
           {{"constraint", miss.constraint},
            {"missing_bytes", miss.missing_bytes},
            {"smallest_bytes", miss.smallest_bytes},
            {"nearest",
             {{"policy", nlohmann::json::parse(policy_to_json(miss.nearest.policy))},
              {"bytes", tiers_to_json(totals(miss.nearest, unified))}}}}}};
}

nlohmann::json plan_to_json(const Plan& plan, bool unified) {
  const ResourceSeconds& sweep = plan.predicted.sweep;
  nlohmann::json json{{"policy", nlohmann::json::parse(policy_to_json(plan.policy))},
                      {"bytes", tiers_to_json(totals(plan, unified))},
                      {"predicted",
                       {{"generated_tokens_per_s", plan.predicted.generated_tokens_per_s},
                        {"total_tokens_per_s", plan.predicted.total_tokens_per_s},
                        {"sweep_seconds", plan.predicted.sweep_seconds},
                        {"seconds", plan.predicted.seconds}}},
                      {"resource_seconds",
                       {{"compute", sweep.compute},
                        {"link_down", sweep.link_down},
                        {"link_up", sweep.link_up},
                        {"disk_read", sweep.disk_read},
                        {"disk_write", sweep.disk_write},
                        {"host_attention", sweep.host_attention}}},
                      {"bottleneck", plan.predicted.bottleneck}};
  if (plan.worth)
    json["worth"] = {{"device_gib", plan.worth->device_gib},
                     {"host_gib", plan.worth->host_gib},
                     {"disk_gbps", plan.worth->disk_gbps},
                     {"link_gbps", plan.worth->link_gbps},
                     {"device_tflops", plan.worth->device_tflops}};
  return json;
}

nlohmann::json neighbours_to_json(const std::vector<Neighbour>& neighbours, bool unified) {
  nlohmann::json json = nlohmann::json::array();
  for (const Neighbour& other : neighbours) {
    json.push_back({{"change", other.change}, {"plan", plan_to_json(other.plan, unified)}});
    if (other.miss) json.back().update(infeasible_to_json(*other.miss, unified));
  }
  return json;
}

nlohmann::json frontier_to_json(const std::vector<Plan>& plans, bool unified) {
  nlohmann::json json = nlohmann::json::array();
  for (const Plan& plan : plans) json.push_back(plan_to_json(plan, unified));
  return {{"frontier", json}};
}

}  // namespace barge
