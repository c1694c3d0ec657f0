// What a run left behind.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/session.h"

namespace barge {
namespace {

// /proc/self/io: what this process made the disk read and write.
std::size_t io_field(const std::string& key) {
  std::ifstream in("/proc/self/io");
  for (std::string word; in >> word;)
    if (std::size_t value = 0; word == key && in >> value) return value;
  return 0;
}

}  // namespace

nlohmann::json busy_seconds(const EngineStats& stats, const EngineStats& before) {
  return {{"compute", stats.compute_seconds - before.compute_seconds},
          {"cpu_attention", stats.cpu_attention_seconds - before.cpu_attention_seconds},
          {"link_down", stats.link.down_seconds - before.link.down_seconds},
          {"link_up", stats.link.up_seconds - before.link.up_seconds},
          {"disk", stats.disk.busy_seconds - before.disk.busy_seconds}};
}

nlohmann::json report(const Session& session, double seconds) {
  const EngineStats stats = session.engine->stats();
  const double prompt = static_cast<double>(stats.prompt_tokens);
  const double generated = static_cast<double>(stats.generated_tokens);
  const auto rate = [](double tokens, double s) { return s > 0 ? tokens / s : 0; };
  PerTier<std::size_t> tiers;
  for (const Tier tier : kTiers) tiers[tier] = stats.weight_bytes[tier] + stats.kv_peak_bytes[tier];
  return {
      {"prompt_tokens", stats.prompt_tokens},
      {"generated_tokens", stats.generated_tokens},
      {"generated_tokens_per_s", rate(generated, seconds)},
      {"total_tokens_per_s", rate(prompt + generated, seconds)},
      {"prefill_seconds", stats.prefill_seconds},
      {"decode_seconds", stats.decode_seconds},
      {"seconds", seconds},
      {"sweeps", stats.sweeps},
      {"swaps", stats.swaps},
      {"replays", stats.replays},
      {"peak_rss_bytes", peak_resident_bytes()},
      {"policy", nlohmann::json::parse(policy_to_json(session.plan.policy))},
      {"predicted_generated_tokens_per_s", session.plan.predicted.generated_tokens_per_s},
      {"tiers", tiers_to_json(tiers)},
      {"weights", tiers_to_json(stats.weight_bytes)},
      {"kv", tiers_to_json(stats.kv_peak_bytes)},
      {"traffic",
       {{"weights_from_disk_bytes", stats.weights.disk_bytes},
        {"kv_from_disk_bytes", stats.kv.disk_read_bytes},
        {"kv_to_disk_bytes", stats.kv.disk_written_bytes},
        {"link_down_bytes", stats.link.down_bytes},
        {"link_up_bytes", stats.link.up_bytes}}},
      {"busy_seconds", busy_seconds(stats)},
      {"stall_seconds", {{"weights", stats.weights.stall_seconds}, {"kv", stats.kv.stall_seconds}}},
      {"io", {{"read_bytes", io_field("read_bytes:")}, {"write_bytes", io_field("write_bytes:")}}}};
}

}  // namespace barge
