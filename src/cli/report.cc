#include "cli/report.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace barge {
namespace {

using Json = nlohmann::json;

// /proc/self/io: what this process made the disk read and write.
std::size_t io_field(const std::string& key) {
  std::ifstream in("/proc/self/io");
  for (std::string word; in >> word;)
    if (std::size_t value = 0; word == key && in >> value) return value;
  return 0;
}

Json seconds_since(const std::map<std::string, double>& now,
                   const std::map<std::string, double>& before) {
  Json seconds = Json::object();
  for (const auto& [name, sum] : now) {
    const auto earlier = before.find(name);
    seconds[name] = sum - (earlier == before.end() ? 0 : earlier->second);
  }
  return seconds;
}

Json traffic(const EngineStats& now, const EngineStats& before) {
  return {{"weights_from_disk_bytes", now.weights.disk_bytes - before.weights.disk_bytes},
          {"kv_from_disk_bytes", now.kv.disk_read_bytes - before.kv.disk_read_bytes},
          {"kv_to_disk_bytes", now.kv.disk_written_bytes - before.kv.disk_written_bytes},
          {"disk_read_bytes", now.disk.read_bytes - before.disk.read_bytes},
          {"disk_written_bytes", now.disk.written_bytes - before.disk.written_bytes},
          {"link_down_bytes", now.link.down_bytes - before.link.down_bytes},
          {"link_up_bytes", now.link.up_bytes - before.link.up_bytes}};
}

Json busy_seconds(const EngineStats& now, const EngineStats& before) {
  return {{"compute", now.compute_seconds - before.compute_seconds},
          {"cpu_attention", now.cpu_attention_seconds - before.cpu_attention_seconds},
          {"link_down", now.link.down_seconds - before.link.down_seconds},
          {"link_up", now.link.up_seconds - before.link.up_seconds},
          {"disk_read", now.disk.read_seconds - before.disk.read_seconds},
          {"disk_write", now.disk.write_seconds - before.disk.write_seconds}};
}

Json budgets(Budgets& all) {
  Json json = Json::object();
  for (const Tier tier : kTiers) {
    const MemoryBudget& budget = all[tier];
    json[std::string(name_of(tier))] = {{"limit_bytes", budget.limit()},
                                        {"peak_bytes", budget.peak()},
                                        {"bytes_by_tag", budget.by_tag()}};
  }
  return json;
}

}  // namespace

ReportStart start_report(const Session& session) {
  return {session.engine->stats(), io_field("read_bytes:"), io_field("write_bytes:")};
}

Json report(const EngineStats& stats, const EngineStats& before, Budgets& all_budgets,
            const Plan& plan, double seconds) {
  const std::size_t prompt = stats.prompt_tokens - before.prompt_tokens;
  const std::size_t generated = stats.generated_tokens - before.generated_tokens;
  const auto rate = [&](std::size_t tokens) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  PerTier<std::size_t> tiers;
  for (const Tier tier : kTiers) tiers[tier] = stats.weight_bytes[tier] + stats.kv_peak_bytes[tier];
  return {{"prompt_tokens", prompt},
          {"generated_tokens", generated},
          {"generated_tokens_per_s", rate(generated)},
          {"total_tokens_per_s", rate(prompt + generated)},
          {"prefill_seconds", stats.prefill_seconds - before.prefill_seconds},
          {"decode_seconds", stats.decode_seconds - before.decode_seconds},
          {"seconds", seconds},
          {"sweeps", stats.sweeps - before.sweeps},
          {"swaps", stats.swaps - before.swaps},
          {"replays", stats.replays - before.replays},
          {"policy", Json::parse(policy_to_json(plan.policy))},
          {"predicted_generated_tokens_per_s", plan.predicted.generated_tokens_per_s},
          {"predicted_seconds", plan.predicted.seconds},
          {"tiers", tiers_to_json(tiers)},
          {"weights", tiers_to_json(stats.weight_bytes)},
          {"kv", tiers_to_json(stats.kv_peak_bytes)},
          {"budgets", budgets(all_budgets)},
          {"traffic", traffic(stats, before)},
          {"busy_seconds", busy_seconds(stats, before)},
          // What the device's compute stream waited for; then the engine's thread, which gives it
          // its work ahead of time and may well wait.
          {"stall_seconds", seconds_since(stats.compute_waits, before.compute_waits)},
          {"engine_wait_seconds", seconds_since(stats.engine_waits, before.engine_waits)}};
}

Json report(Session& session, double seconds, const ReportStart& start) {
  Json json =
      report(session.engine->stats(), start.stats, session.machine.budgets, session.plan, seconds);
  json["sweeps_against_plan"] =
      session.watch->predicted() > 0 ? session.watch->seconds() / session.watch->predicted() : 0;
  json["dtype"] = name_of(session.machine.compute);
  json["activation_bits"] = session.activation_bits();
  json["peak_rss_bytes"] = peak_resident_bytes();
  json["io"] = {{"read_bytes", io_field("read_bytes:") - start.read_bytes},
                {"write_bytes", io_field("write_bytes:") - start.write_bytes}};
  return json;
}

}  // namespace barge
