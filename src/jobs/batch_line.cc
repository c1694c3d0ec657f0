#include "jobs/batch_line.h"

#include <algorithm>

#include "jobs/body_fields.h"

namespace barge {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(std::string code, std::string message, std::string param = "") {
  throw LineProblem{std::move(code), std::move(message), std::move(param)};
}

void require(const LineFields::Field& field, const char* name) {
  if (!field.is_given())
    refuse("missing_required_parameter", concat("Missing required parameter: '", name, "'."), name);
}

void require_string(const LineFields::Field& field, const char* name) {
  require(field, name);
  if (!field.is_string()) refuse("invalid_type", type_message(name, "a string", field.type), name);
}

}  // namespace

std::string_view url_of(Endpoint endpoint) {
  return endpoint == Endpoint::kCompletions ? "/v1/completions" : "/v1/chat/completions";
}

std::optional<Endpoint> endpoint_of(std::string_view url) {
  for (const Endpoint endpoint : {Endpoint::kChatCompletions, Endpoint::kCompletions})
    if (url == url_of(endpoint)) return endpoint;
  return std::nullopt;
}

RequestError LineProblem::as_error() const {
  return RequestError(message, param, code, code == "model_not_found" ? 404 : 400);
}

BatchLine LineChecker::check(const LineReader::Line& line) {
  BatchLine out;
  out.number = line.number;
  try {
    if (line.too_long)
      refuse("line_too_long", concat("This line is longer than ", kMaxLineBytes, " bytes."));
    if (is_too_deep(line.text))
      refuse("invalid_json_line",
             concat("This line nests deeper than ", kMaxJsonDepth, " levels."));
    if (has_too_many_values(line.text))
      refuse("invalid_json_line", concat("This line has more than ", kMaxJsonValues, " values."));
    json object = json::parse(line.text, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded() || line.text.starts_with("\xef\xbb\xbf"))  // json skips it
      refuse("invalid_json_line", "This line is not parseable as valid JSON.");
    check_fields(line_fields(object), out);
    out.body = std::move(object["body"]);
  } catch (LineProblem& problem) {
    problem.line = line.number;
    out.problem = std::move(problem);
  }
  return out;
}

std::optional<LineProblem> LineChecker::problem_of(const LineReader::Line& line) {
  LineFields fields;
  if (line.too_long || has_too_many_values(line.text) || !scanner_.scan(line.text, fields))
    return check(line).problem;
  BatchLine out;
  try {
    check_fields(fields, out);
  } catch (LineProblem& problem) {
    problem.line = line.number;
    return std::move(problem);
  }
  return std::nullopt;
}

void LineChecker::check_fields(const LineFields& line, BatchLine& out) {
  if (!line.is_object)
    refuse("invalid_request", "Each line of the input file must be a JSON object.");
  bool repeated = false;
  if (line.custom_id.is_string()) {
    out.custom_id = line.custom_id.text;
    repeated = !seen_.insert(hash128(*out.custom_id));
  }
  require_string(line.custom_id, "custom_id");
  require_string(line.method, "method");
  if (line.method.text != "POST")
    refuse("invalid_method",
           concat("Invalid method '", line.method.text, "': only 'POST' is supported."), "method");
  require_string(line.url, "url");
  require(line.body, "body");
  if (line.body.type != type_name(json::object()))
    refuse("invalid_type", type_message("body", "an object", line.body.type), "body");
  const auto endpoint = endpoint_of(line.url.text);
  if (rules_.endpoint && endpoint != rules_.endpoint)
    refuse("invalid_url", "The URL provided for this request does not match the batch endpoint.",
           "url");
  if (!endpoint)
    refuse("invalid_url",
           concat("Invalid URL '", line.url.text, "': supported are '/v1/chat/completions' and ",
                  "'/v1/completions'."),
           "url");
  out.endpoint = *endpoint;

  if (!line.model.is_given())
    refuse("invalid_request", "Model parameter is required.", "body.model");
  const bool chat = out.endpoint == Endpoint::kChatCompletions;
  const char* prompt = chat ? "messages" : "prompt";
  if (!(chat ? line.messages : line.prompt).is_given())
    refuse("missing_required_parameter", concat("Missing required parameter: '", prompt, "'."),
           concat("body.", prompt));
  if (line.streams)
    refuse("streaming_unsupported",
           concat(chat ? "Chat Completions" : "Completions",
                  ": Streaming is not supported in the Batch API."),
           "body.stream");
  if (repeated)
    refuse("duplicate_custom_id",
           concat("The custom_id '", *out.custom_id,
                  "' for this request is a duplicate of another request. The custom_id parameter ",
                  "must be unique for each request in a batch."),
           "custom_id");
  check_model(line.model);
}

void LineChecker::check_model(const LineFields::Field& field) {
  if (!field.is_string())
    refuse("invalid_type", type_message("body.model", "a string", field.type), "body.model");
  const std::string& model = field.text;
  if (!rules_.models.empty() && std::ranges::find(rules_.models, model) == rules_.models.end())
    refuse("model_not_found",
           concat("The provided model '", model, "' is not supported by the Batch API."),
           "body.model");
  if (!first_model_) first_model_ = model;
  if (model != *first_model_)
    refuse("mismatched_model",
           concat("The model '", model, "' for this request does not match the rest of the batch. ",
                  "Each batch must contain requests for a single model."),
           "body.model");
}

}  // namespace barge
