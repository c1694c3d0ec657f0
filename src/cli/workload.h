#pragma once

#include <filesystem>

#include "policy/cost_model.h"

namespace barge {

/// Means of a job in the Batch API's JSONL, guessed without a tokenizer (four bytes a token) from
/// its first lines; bad lines are passed over. Throws IoError.
Workload estimate_workload(const std::filesystem::path& input);

}  // namespace barge
