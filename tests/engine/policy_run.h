#pragma once

#include <vector>

#include "tests/support/test_model.h"

namespace barge {

/// 24 requests of all kinds for tiny models: one-token prompts, two choices of a request, greedy
/// and not, with and without limits and penalties; some want their prompt's log-probabilities.
std::vector<GenerationRequest> policy_job();

/// Runs the requests, submitted in an order that follows from `order` (0: as they are), and checks
/// that the policy was in force: weights and KV cache were where it wants them, and what the kernel
/// says of this process's reads and writes agrees. The answers are in the order of `requests`.
std::vector<TestAnswer> run_under(const TestModel& model, const TestSetup& setup,
                                  const std::vector<GenerationRequest>& requests,
                                  unsigned order = 0);

/// What besides a line itself its bytes depend on: which layers the CPU attends in. Where the
/// device is a CPU, too, and has the same kernels, not even that.
int place_of_attention(const TestSetup& setup);

}  // namespace barge
