#include "jobs/completion_response.h"

#include "jobs/logprobs_json.h"

namespace barge {
namespace {

using Json = nlohmann::ordered_json;

Json chat_choice(const CompletionRequest& request, std::size_t index, const TextResult& result,
                 const Generator& generator) {
  Json logprobs;
  if (request.logprobs)
    logprobs = chat_logprobs(result.tokens, request.texts[index].sampling.logprobs, generator);
  return {{"index", index},
          {"message", {{"role", "assistant"}, {"content", result.text}, {"refusal", nullptr}}},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", reason_name(result.reason)}};
}

}  // namespace

const char* reason_name(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

Json text_choice(const CompletionRequest& request, std::size_t index, const TextResult& result,
                 const Generator& generator) {
  const TextRequest& text = request.texts[index];
  const auto* ids = std::get_if<std::vector<TokenId>>(&text.prompt);
  const bool echo = request.echo && ids;
  std::string answer = echo ? generator.decode(*ids) : "";
  if (!request.score_only) answer += result.text;
  Json logprobs;
  if (request.logprobs) {
    LegacyLogprobs lists(generator);
    if (echo && !ids->empty()) {
      lists.add_first(ids->front());
      for (const SampledToken& token : result.prompt_logprobs) lists.add(token);
    }
    if (!request.score_only)
      for (const SampledToken& token : result.tokens) lists.add(token);
    logprobs = lists.take();
  }
  return {{"index", index},
          {"text", std::move(answer)},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", request.score_only ? "length" : reason_name(result.reason)}};
}

Json usage_json(const CompletionRequest& request, std::span<const TextResult> results) {
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i % request.choices_per_prompt == 0) prompt_tokens += results[i].prompt_tokens;
    if (!request.score_only) completion_tokens += results[i].completion_tokens;
  }
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens}};
}

Json completion_body(const CompletionRequest& request, std::span<const TextResult> results,
                     const Generator& generator, std::string_view id, std::int64_t created) {
  const bool chat = request.endpoint == Endpoint::kChatCompletions;
  Json choices = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i)
    choices.push_back(chat ? chat_choice(request, i, results[i], generator)
                           : text_choice(request, i, results[i], generator));
  return {{"id", id},
          {"object", chat ? "chat.completion" : "text_completion"},
          {"created", created},
          {"model", request.model},
          {"choices", std::move(choices)},
          {"usage", usage_json(request, results)}};
}

Json error_body(const std::string& message, const std::string& param, const std::string& code,
                int status) {
  Json error = {{"message", message},
                {"type", status < 500 ? "invalid_request_error" : "server_error"},
                {"param", nullptr},
                {"code", nullptr}};
  if (!param.empty()) error["param"] = param;
  if (!code.empty()) error["code"] = code;
  return {{"error", std::move(error)}};
}

Json error_body(const RequestError& error) {
  return error_body(error.what(), error.param, error.code, error.status);
}

std::string answer_line(std::string_view id, const std::optional<std::string>& custom_id,
                        int status, std::string_view request_id, const Json& body) {
  Json line = {{"id", id},
               {"custom_id", nullptr},
               {"response", {{"status_code", status}, {"request_id", request_id}, {"body", body}}},
               {"error", nullptr}};
  if (custom_id) line["custom_id"] = *custom_id;
  return to_text(line) + '\n';
}

std::string not_run_line(std::string_view id, const std::optional<std::string>& custom_id,
                         std::string_view code, std::string_view message) {
  Json line = {{"id", id},
               {"custom_id", nullptr},
               {"response", nullptr},
               {"error", {{"code", code}, {"message", message}}}};
  if (custom_id) line["custom_id"] = *custom_id;
  return to_text(line) + '\n';
}

std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace barge
