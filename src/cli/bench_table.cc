// What `barge bench` prints for people.
#include <cstdio>

#include "cli/bench_report.h"
#include "core/bytes.h"

namespace barge {
namespace {

using Json = nlohmann::json;

template <typename... Values>
void line(std::string& out, const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  out += text;
}

std::string bytes(const Json& json) { return format_bytes(json.get<std::size_t>()); }

void add_rates(std::string& out, const Json& report) {
  struct Rate {
    const char *key, *name, *unit;
    double scale;
    int decimals;
  };
  constexpr Rate kRates[] = {
      {"prefill_tokens_per_s", "prefill", "tokens/s", 1, 1},
      {"decode_tokens_per_s", "decode", "tokens/s", 1, 1},
      {"generated_tokens_per_s", "generated", "tokens/s", 1, 1},
      {"total_tokens_per_s", "all tokens", "tokens/s", 1, 1},
      {"matrix_ops_per_s", "computing", "Gop/s", 1e9, 1},
      {"disk_read_bytes_per_s", "disk read", "GB/s", 1e9, 2},
      {"disk_write_bytes_per_s", "disk write", "GB/s", 1e9, 2},
  };
  const bool limited = report.contains("limits");
  line(out, "  %-22s %10s %10s %7s\n", "", "achieved", limited ? "limit" : "",
       limited ? "ratio" : "");
  for (const Rate& rate : kRates) {
    if (!report.contains(rate.key)) continue;
    line(out, "  %-22s %10.*f", rate.name, rate.decimals,
         report[rate.key].get<double>() / rate.scale);
    if (limited)
      line(out, " %10.*f %7.2f", rate.decimals,
           report["limits"][rate.key].get<double>() / rate.scale,
           report["ratios"].value(rate.key, 0.0));
    line(out, "  %s\n", rate.unit);
  }
  if (limited && report["activation_bits"] == 8)
    line(out, "  %-22s %10s %10.1f %7s  Gop/s\n", "  were inputs 16 bits", "",
         report["limits"]["matrix_ops_per_s_in_16_bits"].get<double>() / 1e9, "");
  line(out, "  %-22s %10.2f", "seconds", report["seconds"].get<double>());
  if (limited)
    line(out, " %10.2f %7.2f", report["limits"]["seconds"].get<double>(),
         report["ratios"]["seconds"].get<double>());
  out += '\n';
}

void add_sweeps(std::string& out, const Json& report) {
  for (const char* kind : {"prefill", "decode"}) {
    const Json& times = report["sweep_times"][kind];
    if (times["sweeps"] == 0) continue;
    line(out, "  %-22s %10d of %.3f s (median)\n", concat(kind, " sweeps").c_str(),
         times["sweeps"].get<int>(), times["median_seconds"].get<double>());
  }
  if (!report.contains("sweeps_bound_by")) return;
  out += "  at the limit, bound by";
  for (const auto& [what, count] : report["sweeps_bound_by"].items())
    line(out, " %s %d", what.c_str(), count.get<int>());
  out += '\n';
}

// Shares of the run's time, of those that took any.
void add_shares(std::string& out, const char* title, const Json& seconds, double all) {
  std::string shares;
  for (const auto& [name, busy] : seconds.items())
    if (busy.get<double>() > 0.005 * all)
      line(shares, " %s %.0f %%", name.c_str(), 100 * busy.get<double>() / all);
  if (!shares.empty()) line(out, "  %-22s%s\n", title, shares.c_str());
}

}  // namespace

std::string bench_table(const Json& report) {
  std::string out;
  line(out, "%s: %zu prompts of %.0f tokens on average (%.0f computed), %.0f generated each\n",
       report["model"].get<std::string>().substr(0, 80).c_str(),
       report["num_prompts"].get<std::size_t>(),
       report["prompt_tokens"].get<double>() / report["num_prompts"].get<double>(),
       report["prompt_tokens_computed"].get<double>() / report["num_prompts"].get<double>(),
       report["generated_tokens"].get<double>() / report["num_prompts"].get<double>());
  add_rates(out, report);
  add_sweeps(out, report);
  const double seconds = report["seconds"].get<double>();
  add_shares(out, "busy", report["busy_seconds"], seconds);
  add_shares(out, "computing waited for", report["stall_seconds"], seconds);
  add_shares(out, "the engine waited for", report["engine_wait_seconds"], seconds);
  const Json& moved = report["traffic"];
  line(out, "  %-22s %s of weights, %s of KV; written %s\n", "read from disk",
       bytes(moved["weights_from_disk_bytes"]).c_str(), bytes(moved["kv_from_disk_bytes"]).c_str(),
       bytes(moved["kv_to_disk_bytes"]).c_str());
  for (const char* key : {"weights", "kv"})
    line(out, "  %-22s device %s, host %s, disk %s\n", key, bytes(report[key]["device"]).c_str(),
         bytes(report[key]["host"]).c_str(), bytes(report[key]["disk"]).c_str());
  for (const auto& [tier, budget] : report["budgets"].items())
    if (budget["peak_bytes"] != 0)
      line(out, "  %-22s %s of %s\n", concat("budget of ", tier).c_str(),
           bytes(budget["peak_bytes"]).c_str(), bytes(budget["limit_bytes"]).c_str());
  if (report.contains("peak_rss_bytes"))  // not of a simulation
    line(out, "  %-22s %s\n", "peak resident set", bytes(report["peak_rss_bytes"]).c_str());
  return out;
}

}  // namespace barge
