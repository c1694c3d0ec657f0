#pragma once

#include <vector>

#include "cli/options.h"
#include "policy/workload.h"

namespace barge {

/// `barge bench --simulate`: the lines on the machine of a profile, in virtual time. Prints the
/// same table or JSON as a run, limits aside. `job`: what is planned for.
void simulate(const Options& options, const std::vector<LineLength>& lengths, const Workload& job);

}  // namespace barge
