#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "jobs/job_store.h"

namespace barge {

/// A new job, status validating, created `now` (Unix seconds), from the body, an object, of POST
/// /v1/batches. Throws RequestError.
JobRecord parse_batch(const nlohmann::json& body, std::int64_t now);

/// The Batch object of OpenAI's API.
nlohmann::ordered_json batch_json(const JobRecord& job);

}  // namespace barge
