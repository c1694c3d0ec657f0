#pragma once

#include <string>
#include <variant>
#include <vector>

#include "policy/search.h"

namespace barge {

/// What else could be chosen, for people who want to see why it wasn't.

/// A policy that differs in one thing from the chosen one: priced, or why it doesn't fit.
struct Neighbour {
  std::string change;  // "block of 128 sequences"
  Plan plan;
  std::optional<Infeasible> miss;
};
std::vector<Neighbour> neighbours(const Profile& profile, const ShapeFor& shape_for,
                                  const Workload& job, const TierLimits& limits,
                                  const Policy& chosen);

/// Jobs of one block each, from one line upwards, by falling tokens/s per second of latency: a
/// larger block has more throughput and takes longer. Points that another beats in both are left
/// out. `plan.predicted.seconds` is the latency.
std::vector<Plan> frontier(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
                           const TierLimits& limits, const PolicyWishes& wishes);

}  // namespace barge
