#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/request.h"
#include "kernels/cpu/draw.h"

namespace barge {

/// How the token at `position` of an answer is drawn from logits that are modified already.
DrawParams draw_params(const SamplingParams& params, std::size_t position);

/// What draw_token gave, unless that is none: throws Error if it found no numbers to draw from.
TokenId require_token(std::int32_t drawn);

/// Draws tokens from logits. Keeps scratch space for one vocabulary; one thread.
/// Order of the modifiers, as in vLLM: logit_bias, penalties, temperature, top_k, top_p (of what
/// top_k left). Log-probabilities are those of the unmodified logits.
class Sampler {
 public:
  explicit Sampler(int vocab);
  /// Bytes of its scratch space.
  static std::size_t scratch_bytes(int vocab);

  /// The token after `answer` (what was generated so far; its length is the generator's position),
  /// or `forced` with what the model thinks of it. logits [vocab].
  /// Throws Error if the logits aren't numbers.
  SampledToken sample(std::span<const float> logits, const SamplingParams& params,
                      std::span<const TokenId> answer, std::optional<TokenId> forced = {});
  /// What the logits say of a given token; `num_top` < 0: nothing but its id.
  SampledToken score(std::span<const float> logits, TokenId id, int num_top) const;

 private:
  std::span<const float> modify(std::span<const float> logits, const SamplingParams& params,
                                std::span<const TokenId> answer);

  std::vector<float> modified_;  // [vocab]
  DrawScratch scratch_;
};

}  // namespace barge
