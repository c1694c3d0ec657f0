#include "jobs/completion_chunks.h"

#include <utility>

#include "jobs/completion_response.h"

namespace barge {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

CompletionChunks::CompletionChunks(const CompletionRequest& request, const Generator& generator,
                                   std::string id, std::int64_t created)
    : request_(request),
      generator_(generator),
      id_(std::move(id)),
      created_(created),
      chat_(request.endpoint == Endpoint::kChatCompletions),
      told_(request.texts.size()),
      logprobs_(request.texts.size(), LegacyLogprobs(generator)) {}

Json CompletionChunks::begin(std::size_t choice) const {
  if (!chat_) return nullptr;
  Json one = {{"index", choice},
              {"delta", {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}},
              {"logprobs", nullptr},
              {"finish_reason", nullptr}};
  return chunk(Json::array({std::move(one)}));
}

Json CompletionChunks::piece(std::size_t choice, const TextPiece& piece) {
  told_[choice] += piece.tokens.size();
  return chunk(choice, chat_ ? Json{{"content", piece.text}} : Json(piece.text), piece.tokens,
               nullptr);
}

Json CompletionChunks::end(std::size_t choice, const TextResult& result) {
  if (!in_pieces()) return chunk(Json::array({text_choice(request_, choice, result, generator_)}));
  return chunk(choice, chat_ ? Json::object() : Json(""),
               std::span<const SampledToken>(result.tokens).subspan(told_[choice]),
               reason_name(result.reason));
}

Json CompletionChunks::usage(std::span<const TextResult> results) const {
  Json last = chunk(Json::array());
  last["usage"] = usage_json(request_, results);
  return last;
}

Json CompletionChunks::chunk(Json choices) const {
  Json all = {{"id", id_},
              {"object", chat_ ? "chat.completion.chunk" : "text_completion"},
              {"created", created_},
              {"model", request_.model},
              {"choices", std::move(choices)}};
  if (request_.include_usage) all["usage"] = nullptr;  // but for the last
  return all;
}

Json CompletionChunks::chunk(std::size_t choice, Json content, std::span<const SampledToken> tokens,
                             Json finish_reason) {
  Json one = {{"index", choice},
              {chat_ ? "delta" : "text", std::move(content)},
              {"logprobs", logprobs(choice, tokens)},
              {"finish_reason", std::move(finish_reason)}};
  return chunk(Json::array({std::move(one)}));
}

Json CompletionChunks::logprobs(std::size_t choice, std::span<const SampledToken> tokens) {
  if (!request_.logprobs || tokens.empty()) return nullptr;
  if (chat_) return chat_logprobs(tokens, request_.texts[choice].sampling.logprobs, generator_);
  for (const SampledToken& token : tokens) logprobs_[choice].add(token);
  return logprobs_[choice].take();
}

}  // namespace barge
