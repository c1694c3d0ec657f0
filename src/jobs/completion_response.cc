#include "jobs/completion_response.h"

#include <algorithm>
#include <cmath>

namespace barge {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; vLLM's floor.
double finite(float logprob) { return std::isfinite(logprob) ? std::max(logprob, -9999.f) : -9999; }

const char* reason_name(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

// Bytes of a character that spans tokens aren't UTF-8 by themselves.
std::string printable(const std::string& bytes) {
  return Json::parse(to_text(Json(bytes))).get<std::string>();
}

Json chat_token(const Generator& generator, TokenId id, float logprob) {
  const std::string piece = generator.piece(id);
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", piece}, {"logprob", finite(logprob)}, {"bytes", std::move(bytes)}};
}

Json chat_logprobs(const TextRequest& text, const TextResult& result, const Generator& generator) {
  Json content = Json::array();
  for (const SampledToken& token : result.tokens) {
    Json entry = chat_token(generator, token.id, token.logprob);
    Json top = Json::array();
    for (const auto& other : token.top) {
      if (top.size() == static_cast<std::size_t>(text.sampling.logprobs)) break;
      top.push_back(chat_token(generator, other.id, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// The parallel lists of /v1/completions.
class LegacyLogprobs {
 public:
  explicit LegacyLogprobs(const Generator& generator) : generator_(generator) {}

  // The first token of a prompt: nothing came before it.
  void add_first(TokenId id) {
    add_token(id);
    token_logprobs_.push_back(nullptr);
    top_logprobs_.push_back(nullptr);
  }
  void add(const SampledToken& token) {
    add_token(token.id);
    token_logprobs_.push_back(finite(token.logprob));
    Json top = Json::object();
    add_top(top, token.id, token.logprob);
    for (const auto& other : token.top) add_top(top, other.id, other.logprob);
    top_logprobs_.push_back(std::move(top));
  }
  Json take() {
    return {{"tokens", std::move(tokens_)},
            {"token_logprobs", std::move(token_logprobs_)},
            {"top_logprobs", std::move(top_logprobs_)},
            {"text_offset", std::move(text_offset_)}};
  }

 private:
  void add_token(TokenId id) {
    const std::string piece = generator_.piece(id);
    text_offset_.push_back(offset_);
    // Offsets count characters: bytes that don't continue one.
    offset_ += std::ranges::count_if(piece, [](char c) { return (c & 0xC0) != 0x80; });
    tokens_.push_back(printable(piece));
  }
  // Two tokens may spell alike: the larger stays.
  void add_top(Json& top, TokenId id, float logprob) {
    const std::string piece = printable(generator_.piece(id));
    const double value = finite(logprob);
    if (const auto found = top.find(piece); found == top.end() || found->get<double>() < value)
      top[piece] = value;
  }

  const Generator& generator_;
  std::int64_t offset_ = 0;
  Json tokens_ = Json::array(), token_logprobs_ = Json::array();
  Json top_logprobs_ = Json::array(), text_offset_ = Json::array();
};

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

Json chat_choice(const CompletionRequest& request, std::size_t index, const TextResult& result,
                 const Generator& generator) {
  Json logprobs;
  if (request.logprobs) logprobs = chat_logprobs(request.texts[index], result, generator);
  return {{"index", index},
          {"message", {{"role", "assistant"}, {"content", result.text}, {"refusal", nullptr}}},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", reason_name(result.reason)}};
}

}  // namespace

Json completion_body(const CompletionRequest& request, std::span<const TextResult> results,
                     const Generator& generator, std::string_view id, std::int64_t created) {
  const bool chat = request.endpoint == Endpoint::kChatCompletions;
  Json choices = Json::array();
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    choices.push_back(chat ? chat_choice(request, i, results[i], generator)
                           : text_choice(request, i, results[i], generator));
    if (i % request.choices_per_prompt == 0) prompt_tokens += results[i].prompt_tokens;
    if (!request.score_only) completion_tokens += results[i].completion_tokens;
  }
  return {{"id", id},
          {"object", chat ? "chat.completion" : "text_completion"},
          {"created", created},
          {"model", request.model},
          {"choices", std::move(choices)},
          {"usage",
           {{"prompt_tokens", prompt_tokens},
            {"completion_tokens", completion_tokens},
            {"total_tokens", prompt_tokens + completion_tokens}}}};
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

std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace barge
