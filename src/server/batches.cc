#include "server/batches.h"

#include <algorithm>
#include <optional>

#include "core/errors.h"
#include "jobs/batch_line.h"
#include "jobs/body_fields.h"
#include "server/data_directory.h"
#include "server/lifetime.h"

namespace barge {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxPairs = 16, kMaxKeyLength = 64, kMaxValueLength = 512;  // characters

std::string required(const BodyFields& fields, const char* name) {
  const auto value = fields.string(name);
  if (!value) throw_missing(name);
  return *value;
}

std::size_t num_characters(const std::string& text) {  // bytes that don't continue one
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

void check_metadata(const json& metadata) {
  if (!metadata.is_object()) throw_type("metadata", "an object", metadata);
  if (metadata.size() > kMaxPairs)
    throw RequestError(
        concat("Invalid 'metadata': too many properties. Expected an object with ", "at most ",
               kMaxPairs, " properties, but got ", metadata.size(), " instead."),
        "metadata", "object_above_max_properties");
  for (const auto& [key, value] : metadata.items()) {
    if (num_characters(key) > kMaxKeyLength)
      throw RequestError(concat("Invalid 'metadata': a key is longer than ", kMaxKeyLength, '.'),
                         "metadata", "string_above_max_length");
    if (!value.is_string()) throw_type("metadata." + key, "a string", value);
    if (num_characters(value.get_ref<const std::string&>()) > kMaxValueLength)
      throw RequestError(concat("Invalid 'metadata.", key, "': string too long. Expected a string ",
                                "with maximum length ", kMaxValueLength, '.'),
                         "metadata." + key, "string_above_max_length");
  }
}

Json maybe(const std::optional<std::string>& value) { return value ? Json(*value) : Json(); }
Json maybe(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }

}  // namespace

JobRecord parse_batch(const json& body, std::int64_t now) {
  const BodyFields fields(body);
  JobRecord job;
  job.input_file_id = required(fields, "input_file_id");
  job.endpoint = required(fields, "endpoint");
  if (!endpoint_of(job.endpoint))
    throw RequestError(concat("Invalid value: '", job.endpoint, "'. Supported values are: ",
                              "'/v1/chat/completions' and '/v1/completions'."),
                       "endpoint", "invalid_value");
  job.completion_window = required(fields, "completion_window");
  if (job.completion_window != "24h")
    throw RequestError(
        concat("Invalid value: '", job.completion_window, "'. Supported values are: '24h'."),
        "completion_window", "invalid_value");
  job.metadata_json = "null";
  if (const json* metadata = fields.find("metadata")) {
    check_metadata(*metadata);
    job.metadata_json = metadata->dump();
  }
  if (const json* lifetime = fields.find("output_expires_after"))
    job.output_lifetime = checked_lifetime(*lifetime, "output_expires_after");
  job.id = random_id("batch_");
  job.status = JobStatus::kValidating;
  job.created_at = now;
  return job;
}

Json batch_json(const JobRecord& job) {
  Json usage;
  if (is_terminal(job.status) && job.status != JobStatus::kFailed)
    usage = {{"input_tokens", job.prompt_tokens},
             {"input_tokens_details", {{"cached_tokens", 0}}},
             {"output_tokens", job.generated_tokens},
             {"output_tokens_details", {{"reasoning_tokens", 0}}},
             {"total_tokens", job.prompt_tokens + job.generated_tokens}};
  return {{"id", job.id},
          {"object", "batch"},
          {"endpoint", job.endpoint},
          {"model", maybe(job.model)},
          {"errors", Json::parse(job.errors_json)},
          {"input_file_id", job.input_file_id},
          {"completion_window", job.completion_window},
          {"status", status_name(job.status)},
          {"output_file_id", maybe(job.output_file_id)},
          {"error_file_id", maybe(job.error_file_id)},
          {"created_at", job.created_at},
          {"in_progress_at", maybe(job.in_progress_at)},
          {"expires_at", maybe(job.expires_at)},
          {"finalizing_at", maybe(job.finalizing_at)},
          {"completed_at", maybe(job.completed_at)},
          {"failed_at", maybe(job.failed_at)},
          {"expired_at", job.status == JobStatus::kExpired ? maybe(job.expired_at) : Json()},
          {"cancelling_at", maybe(job.cancelling_at)},
          {"cancelled_at", maybe(job.cancelled_at)},
          {"request_counts",
           {{"total", job.total}, {"completed", job.completed}, {"failed", job.failed}}},
          {"usage", std::move(usage)},
          {"metadata", Json::parse(job.metadata_json)}};
}

}  // namespace barge
