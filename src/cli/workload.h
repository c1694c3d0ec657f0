#pragma once

#include <filesystem>

#include "cli/options.h"
#include "policy/cost_model.h"

namespace barge {

/// The job of --prompt-len and --gen-len: all lines alike.
Workload workload_of(const Options& options, int num_prompts);

/// Means of a job in the Batch API's JSONL, guessed without a tokenizer (four bytes a token) from
/// its first lines; bad lines are passed over. Throws IoError.
Workload estimate_workload(const std::filesystem::path& input);

}  // namespace barge
