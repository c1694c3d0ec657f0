#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/generator.h"

namespace barge {

/// `logprobs` of a chat choice: {"content": […], "refusal": null}, an entry for each token with
/// its `num_top` most likely alternatives. `generator` spells them out.
nlohmann::ordered_json chat_logprobs(std::span<const SampledToken> tokens, int num_top,
                                     const Generator& generator);

/// `logprobs` of a choice of /v1/completions: parallel lists, of a whole answer or, `take` by
/// `take`, of its pieces.
class LegacyLogprobs {
 public:
  /// `generator` must outlive it.
  explicit LegacyLogprobs(const Generator& generator) : generator_(generator) {}

  /// The first token of a prompt: nothing came before it.
  void add_first(TokenId id);
  void add(const SampledToken& token);
  /// What was added since the last time; offsets go on.
  nlohmann::ordered_json take();

 private:
  void add_token(TokenId id);
  void add_top(nlohmann::ordered_json& top, TokenId id, float logprob) const;

  const Generator& generator_;
  std::int64_t offset_ = 0;
  nlohmann::ordered_json tokens_ = nlohmann::ordered_json::array(),
                         token_logprobs_ = nlohmann::ordered_json::array(),
                         top_logprobs_ = nlohmann::ordered_json::array(),
                         text_offset_ = nlohmann::ordered_json::array();
};

}  // namespace barge
