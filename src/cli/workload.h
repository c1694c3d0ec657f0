#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/options.h"
#include "engine/text_engine.h"
#include "policy/workload.h"

namespace barge {

/// The lengths of --prompt-len and --gen-len, each a number or drawn from
/// lognormal:MEDIAN,SIGMA,MAX (cut at MAX). The same on each call. Throws ConfigError.
std::vector<LineLength> draw_lengths(const Options& options, int num_prompts);

Workload workload_of(const std::vector<LineLength>& lengths);

/// Means of a job in the Batch API's JSONL, guessed without a tokenizer (four bytes a token) from
/// its first lines; bad lines are passed over. Throws IoError.
Workload estimate_workload(const std::filesystem::path& input);

/// Greedy requests of random tokens, of which the first `prefix` are the same in all, that go on to
/// the whole length of their answers.
std::vector<TextRequest> random_lines(const std::vector<LineLength>& lengths, int prefix, int vocab,
                                      std::uint64_t seed);

/// The requests of a Batch-API file, prompts as token ids, answers of just max_tokens (256 where a
/// line sets none). Throws IoError, or RequestError naming the line that is bad.
std::vector<TextRequest> lines_of_file(const std::filesystem::path& input, const TextEngine& engine,
                                       std::uint64_t seed);

}  // namespace barge
