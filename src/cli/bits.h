#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/planning.h"
#include "policy/bits.h"

namespace barge {

/// What `--weight-bits auto` and `--kv-bits auto` come to for a job.
struct ChosenBits {
  Options options;                // as given, with the bits in place of `auto`
  std::vector<BitsOption> tried;  // empty where nothing was left to the plan
  std::size_t chosen = 0;
};

/// Plans the job with each: weights in 4, 8 and 16 bits, but no more than the checkpoint has (a
/// pack has its own); KV cache in 4 and 16. A policy from a file has its bits. `target` has what
/// make_plan wants.
ChosenBits choose_bits(const Options& options, const PlanTarget& target, const Workload& job);

/// One line: what was chosen, and what the others would bring. Empty where nothing was tried.
std::string describe_bits(const ChosenBits& bits);
nlohmann::json bits_to_json(const ChosenBits& bits);

}  // namespace barge
