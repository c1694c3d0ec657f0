#pragma once

#include "policy/cost_model.h"

namespace barge {

/// What a plan promises.
struct Prediction {
  double seconds = 0, sweeps = 0;  // of the whole job
  double generated_tokens_per_s = 0, total_tokens_per_s = 0;
  ResourceSeconds sweep;               // asked of each resource by the mean sweep
  double sweep_seconds = 0;            // the mean sweep
  const char* bottleneck = "compute";  // what most of the time is waited for
};

/// Leads the job's lines through the sweeps as the scheduler would (a block that is refilled,
/// decoding sequences first, then prompts in chunks), each sweep as long as its longest resource.
/// Jobs of more than some blocks go on at the pace of the middle ones.
Prediction predict(const Profile& profile, const ModelShape& shape, const Workload& job,
                   const Policy& policy);

}  // namespace barge
