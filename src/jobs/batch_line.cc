#include "jobs/batch_line.h"

#include <algorithm>

#include "jobs/body_fields.h"

namespace barge {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(std::string code, std::string message, std::string param = "") {
  throw LineProblem{std::move(code), std::move(message), std::move(param)};
}

const json& required(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null())
    refuse("missing_required_parameter", concat("Missing required parameter: '", name, "'."), name);
  return *found;
}

const std::string& required_string(const json& object, const char* name) {
  const json& value = required(object, name);
  if (!value.is_string()) refuse("invalid_type", type_message(name, "a string", value), name);
  return value.get_ref<const std::string&>();
}

bool is_given(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
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
    json object = json::parse(line.text, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded() || line.text.starts_with("\xef\xbb\xbf"))  // json skips it
      refuse("invalid_json_line", "This line is not parseable as valid JSON.");
    if (!object.is_object())
      refuse("invalid_request", "Each line of the input file must be a JSON object.");
    check_object(object, out);
    out.body = std::move(object["body"]);
  } catch (LineProblem& problem) {
    problem.line = line.number;
    out.problem = std::move(problem);
  }
  return out;
}

void LineChecker::check_object(const json& object, BatchLine& out) {
  bool repeated = false;
  if (const auto id = object.find("custom_id"); id != object.end() && id->is_string()) {
    out.custom_id = id->get<std::string>();
    repeated = !seen_.insert(hash128(*out.custom_id));
  }
  required_string(object, "custom_id");
  if (const std::string& method = required_string(object, "method"); method != "POST")
    refuse("invalid_method", concat("Invalid method '", method, "': only 'POST' is supported."),
           "method");
  const std::string& url = required_string(object, "url");
  const json& body = required(object, "body");
  if (!body.is_object()) refuse("invalid_type", type_message("body", "an object", body), "body");
  const auto endpoint = endpoint_of(url);
  if (rules_.endpoint && endpoint != rules_.endpoint)
    refuse("invalid_url", "The URL provided for this request does not match the batch endpoint.",
           "url");
  if (!endpoint)
    refuse("invalid_url",
           concat("Invalid URL '", url, "': supported are '/v1/chat/completions' and ",
                  "'/v1/completions'."),
           "url");
  out.endpoint = *endpoint;

  if (!is_given(body, "model"))
    refuse("invalid_request", "Model parameter is required.", "body.model");
  const char* prompt = out.endpoint == Endpoint::kChatCompletions ? "messages" : "prompt";
  if (!is_given(body, prompt))
    refuse("missing_required_parameter", concat("Missing required parameter: '", prompt, "'."),
           concat("body.", prompt));
  if (const auto stream = body.find("stream");
      stream != body.end() && stream->is_boolean() && stream->get<bool>())
    refuse("streaming_unsupported",
           concat(out.endpoint == Endpoint::kChatCompletions ? "Chat Completions" : "Completions",
                  ": Streaming is not supported in the Batch API."),
           "body.stream");
  if (repeated)
    refuse("duplicate_custom_id",
           concat("The custom_id '", *out.custom_id,
                  "' for this request is a duplicate of another request. The custom_id parameter ",
                  "must be unique for each request in a batch."),
           "custom_id");
  check_model(body);
}

void LineChecker::check_model(const json& body) {
  const json& value = body["model"];
  if (!value.is_string())
    refuse("invalid_type", type_message("body.model", "a string", value), "body.model");
  const auto& model = value.get_ref<const std::string&>();
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
