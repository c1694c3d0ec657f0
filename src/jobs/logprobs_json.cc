#include "jobs/logprobs_json.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "jobs/completion_response.h"

namespace barge {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; vLLM's floor.
double finite(float logprob) { return std::isfinite(logprob) ? std::max(logprob, -9999.f) : -9999; }

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

}  // namespace

Json chat_logprobs(std::span<const SampledToken> tokens, int num_top, const Generator& generator) {
  Json content = Json::array();
  for (const SampledToken& token : tokens) {
    Json entry = chat_token(generator, token.id, token.logprob);
    Json top = Json::array();
    for (const auto& other : token.top) {
      if (top.size() == static_cast<std::size_t>(num_top)) break;
      top.push_back(chat_token(generator, other.id, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

void LegacyLogprobs::add_first(TokenId id) {
  add_token(id);
  token_logprobs_.push_back(nullptr);
  top_logprobs_.push_back(nullptr);
}

void LegacyLogprobs::add(const SampledToken& token) {
  add_token(token.id);
  token_logprobs_.push_back(finite(token.logprob));
  Json top = Json::object();
  add_top(top, token.id, token.logprob);
  for (const auto& other : token.top) add_top(top, other.id, other.logprob);
  top_logprobs_.push_back(std::move(top));
}

Json LegacyLogprobs::take() {
  return {{"tokens", std::exchange(tokens_, Json::array())},
          {"token_logprobs", std::exchange(token_logprobs_, Json::array())},
          {"top_logprobs", std::exchange(top_logprobs_, Json::array())},
          {"text_offset", std::exchange(text_offset_, Json::array())}};
}

void LegacyLogprobs::add_token(TokenId id) {
  const std::string piece = generator_.piece(id);
  text_offset_.push_back(offset_);
  // Offsets count characters: bytes that don't continue one.
  offset_ += std::ranges::count_if(piece, [](char c) { return (c & 0xC0) != 0x80; });
  tokens_.push_back(printable(piece));
}

// Two tokens may spell alike: the larger stays.
void LegacyLogprobs::add_top(Json& top, TokenId id, float logprob) const {
  const std::string piece = printable(generator_.piece(id));
  const double value = finite(logprob);
  if (const auto found = top.find(piece); found == top.end() || found->get<double>() < value)
    top[piece] = value;
}

}  // namespace barge
