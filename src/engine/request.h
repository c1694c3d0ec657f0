#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/tokenizer_spec.h"

namespace barge {

/// How the next token is drawn from the logits. Defaults are OpenAI's.
struct SamplingParams {
  float temperature = 1;  // 0: greedy
  float top_p = 1;
  int top_k = 0;  // 0: all
  std::uint64_t seed = 0;
  int choice = 0;  // which of a request's n answers; part of the generator's key
  float presence_penalty = 0, frequency_penalty = 0;
  std::map<TokenId, float> logit_bias;
  int logprobs = -1;  // that many most likely tokens beside the sampled one; -1: none at all
};

/// A token and what the model thought of it.
struct SampledToken {
  struct Alternative {
    TokenId id = 0;
    float logprob = 0;
  };
  TokenId id = 0;
  float logprob = 0;              // of the unmodified logits; 0 where none are wanted
  std::vector<Alternative> top;   // most likely first
  std::uint64_t logits_hash = 0;  // XXH-like hash over the bits of this position's logits
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };

/// One sequence to be continued. Token ids in, token ids out; text is the facade's matter.
struct GenerationRequest {
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  int max_tokens = 16;
  bool ignore_eos = false;
  bool prompt_logprobs = false;  // every prompt token but the first gets a SampledToken too
  bool urgent = false;           // somebody waits for it: it enters before those that aren't
  /// Tokens fed instead of the sampled ones, position by position (teacher forcing, replay).
  std::vector<TokenId> forced;
  /// Called on the engine's thread at the end of each sweep, must be quick. Returning false ends
  /// the sequence with this token (a stop string was completed).
  std::function<bool(const SampledToken&)> on_token;
  /// Called once with each prompt token's log-probability, before the first on_token.
  std::function<void(std::vector<SampledToken>)> on_prompt;
  /// Called once, on the engine's thread; `error` only for kError.
  std::function<void(FinishReason, std::string error)> on_done;
  /// For tests: sees the logits of each generated position, [vocab] f32, before sampling.
  std::function<void(const float* logits, int vocab)> on_logits;

  /// Whether its tokens are drawn from the model's own logits, which nobody else looks at: they
  /// needn't leave the device.
  bool is_plain() const {
    return !prompt_logprobs && forced.empty() && !on_logits && sampling.logprobs < 0 &&
           sampling.logit_bias.empty() && sampling.presence_penalty == 0 &&
           sampling.frequency_penalty == 0;
  }
};

}  // namespace barge
