#include "engine/plan_watch.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>

#include "core/log.h"

namespace barge {
namespace {

constexpr double kMinute = 60, kTolerance = 0.25;
constexpr int kQuietMinutes = 10;

}  // namespace

PlanWatch::PlanWatch(const Profile& profile, const ModelShape& shape, const Policy& policy,
                     std::function<EngineStats()> stats)
    : pricer_(profile, shape, policy), stats_(std::move(stats)) {}

std::string PlanWatch::add(const SweepRecord& sweep) {
  const SweepLoad load{.rows = static_cast<double>(sweep.prompt_rows + sweep.answer_rows),
                       .answers = static_cast<double>(sweep.answer_rows),
                       .logits = static_cast<double>(sweep.logit_rows),
                       .prompt_keys = static_cast<double>(sweep.keys - sweep.read_positions),
                       .read_positions = static_cast<double>(sweep.read_positions)};
  const ResourceSeconds asked = pricer_.seconds(load);
  seconds_ += sweep.seconds;
  predicted_ += asked.longest();
  minute_ += sweep.seconds;
  longest_ += asked.longest();
  asked_ += asked;
  if (minute_ < kMinute) return {};
  std::string said;
  EngineStats now = stats_();
  if (quiet_minutes_ > 0)
    --quiet_minutes_;
  else if (std::abs(minute_ / longest_ - 1) > kTolerance)
    said = compare(now);
  if (!said.empty()) {
    log::warning(said);
    quiet_minutes_ = kQuietMinutes;
  }
  minute_ = longest_ = 0;
  asked_ = {};
  before_ = std::move(now);
  return said;
}

std::string PlanWatch::compare(const EngineStats& now) const {
  const std::array<std::tuple<const char*, double, double>, 5> resources{{
      {"compute", asked_.compute, now.compute_seconds - before_.compute_seconds},
      {"link down", asked_.link_down, now.link.down_seconds - before_.link.down_seconds},
      {"link up", asked_.link_up, now.link.up_seconds - before_.link.up_seconds},
      {"disk", asked_.disk(),
       now.disk.read_seconds - before_.disk.read_seconds + now.disk.write_seconds -
           before_.disk.write_seconds},
      {"CPU attention", asked_.host_attention,
       now.cpu_attention_seconds - before_.cpu_attention_seconds},
  }};
  const auto* worst = &resources.front();
  for (const auto& resource : resources) {
    const auto off = [](const auto& r) { return std::abs(std::get<2>(r) - std::get<1>(r)); };
    if (off(resource) > off(*worst)) worst = &resource;
  }
  const auto& [name, asked, got] = *worst;
  char text[240];
  std::snprintf(
      text, sizeof text,
      "the last minute's sweeps took %.2f of what was planned; most of it is %s, busy for "
      "%.1f s where %.1f s were planned: `barge probe` measures this machine anew",
      minute_ / longest_, name, got, asked);
  return text;
}

}  // namespace barge
