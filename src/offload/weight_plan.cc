#include "offload/weight_plan.h"

#include <functional>

#include "core/errors.h"

namespace barge {
namespace {

using Kind = PackTensor::Kind;

std::vector<std::vector<Tier>> checked_homes(const Pack& pack, std::span<const int> visits,
                                             const std::vector<std::vector<Tier>>& homes,
                                             bool unified) {
  const auto& tensors = pack.tensors();
  if (homes.size() != tensors.size())
    throw ConfigError(
        concat("homes for ", homes.size(), " tensors; the pack has ", tensors.size()));
  for (const int visit : visits)
    if (visit < 0 || static_cast<std::size_t>(visit) >= tensors.size() ||
        tensors[static_cast<std::size_t>(visit)].kind == Kind::kVector)
      throw ConfigError(concat("tensor ", visit, " can't be visited: the pack has ", tensors.size(),
                               " tensors, and vectors aren't visited"));
  std::vector<std::vector<Tier>> checked;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].kind == Kind::kVector) {
      checked.emplace_back(tensors[t].panels.size(), Tier::kDevice);
    } else {
      if (homes[t].size() != tensors[t].panels.size())
        throw ConfigError(concat("homes for ", homes[t].size(), " panels of '", tensors[t].name,
                                 "'; it has ", tensors[t].panels.size()));
      checked.push_back(homes[t]);
    }
    if (!unified) continue;
    for (Tier& home : checked.back())
      if (home == Tier::kDevice) home = Tier::kHost;
  }
  return checked;
}

// Calls `found` with the longest ranges of consecutive panels of a tensor that have the same home
// and, where `limited` says so, at most `run_bytes`.
void for_each_range(const Pack& pack, int tensor, const std::vector<Tier>& homes,
                    std::size_t run_bytes, const std::function<bool(Tier)>& limited,
                    const std::function<void(const PanelRange&, Tier, std::size_t)>& found) {
  const auto& panels = pack.tensors()[static_cast<std::size_t>(tensor)].panels;
  for (std::size_t first = 0; first < panels.size();) {
    std::size_t end = first, bytes = 0;
    while (end < panels.size() && homes[end] == homes[first]) {
      const std::size_t more = panels[end].stored_bytes();
      if (end > first && limited(homes[first]) && bytes + more > run_bytes) break;
      bytes += more;
      ++end;
    }
    found({.tensor = tensor, .first = first, .count = end - first}, homes[first], bytes);
    first = end;
  }
}

}  // namespace

WeightPlan plan_weights(const Pack& pack, std::span<const int> visits,
                        const std::vector<std::vector<Tier>>& homes, bool unified,
                        std::size_t run_bytes) {
  WeightPlan plan;
  plan.homes = checked_homes(pack, visits, homes, unified);
  for (std::size_t t = 0; t < plan.homes.size(); ++t) {
    const PackTensor& tensor = pack.tensors()[t];
    auto& offsets = plan.offsets.emplace_back();
    for (std::size_t p = 0; p < tensor.panels.size(); ++p) {
      const Tier home = plan.homes[t][p];
      offsets.push_back(plan.memory_bytes[home]);
      if (home != Tier::kDisk) plan.memory_bytes[home] += tensor.panels[p].stored_bytes();
      if (tensor.kind != Kind::kVector) plan.at_home[home] += tensor.panels[p].stored_bytes();
    }
    for_each_range(
        pack, static_cast<int>(t), plan.homes[t], run_bytes, [](Tier) { return true; },
        [&](const PanelRange& range, Tier home, std::size_t) {
          if (home != Tier::kDisk) plan.loads.push_back(range);
        });
  }
  const auto streamed = [&](Tier home) {
    return home == Tier::kDisk || (home == Tier::kHost && !unified);
  };
  for (const int visit : visits)
    for_each_range(
        pack, visit, plan.homes[static_cast<std::size_t>(visit)], run_bytes, streamed,
        [&](const PanelRange& range, Tier home, std::size_t bytes) {
          plan.runs.push_back(
              {.panels = range, .home = home, .streamed = streamed(home), .bytes = bytes});
        });
  return plan;
}

std::size_t stored_bytes(const Pack& pack, const PanelRange& range) {
  const auto& panels = pack.tensors()[static_cast<std::size_t>(range.tensor)].panels;
  const PackPanel &first = panels[range.first], &last = panels[range.first + range.count - 1];
  return static_cast<std::size_t>(last.offset - first.offset) + last.stored_bytes();
}

}  // namespace barge
