#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "jobs/batch_line.h"

namespace barge {

/// What one pass over an input file found.
struct Validation {
  std::size_t num_requests = 0;       // lines that aren't blank
  std::size_t num_problems = 0;       // all of them
  std::vector<LineProblem> problems;  // the first ones, in the order of lines
  Hash128 content_hash;
};

struct ValidationLimits {
  std::size_t max_requests = 50'000;
  std::size_t max_problems = 50'000;  // kept; the rest is only counted
};

/// Checks a whole file before anything runs, as OpenAI's batches do: one problem for each bad line
/// (its first), in memory for one line, 16 to 32 bytes a custom_id and the problems. An empty file
/// and one with too many requests are problems of line 0. Throws IoError.
Validation validate(const std::filesystem::path& path, const LineRules& rules,
                    const ValidationLimits& limits = {});

/// Only counts and hashes: about 0.5 GB/s.
Validation scan(const std::filesystem::path& path);

/// The `errors` of a Batch object: {"object": "list", "data": [{code, message, param, line}]}.
nlohmann::ordered_json problems_json(const std::vector<LineProblem>& problems);

}  // namespace barge
