#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/errors.h"
#include "engine/random.h"

namespace barge {

DrawParams draw_params(const SamplingParams& params, std::size_t position) {
  return {.temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .uniform = uniform(params.seed, static_cast<std::uint64_t>(params.choice), position)};
}

TokenId require_token(std::int32_t drawn) {
  if (drawn < 0)
    throw Error(
        "cannot draw a token: the model's logits are no finite numbers; the checkpoint or the "
        "number format overflows");
  return drawn;
}

Sampler::Sampler(int vocab) : modified_(static_cast<std::size_t>(vocab)) {
  scratch_.weights.reserve(modified_.size());
  scratch_.order.reserve(modified_.size());
}

std::size_t Sampler::scratch_bytes(int vocab) {
  return static_cast<std::size_t>(vocab) * sizeof(float) + DrawScratch::bytes(vocab);
}

SampledToken Sampler::sample(std::span<const float> logits, const SamplingParams& params,
                             std::span<const TokenId> answer, std::optional<TokenId> forced) {
  if (forced) return score(logits, *forced, params.logprobs);
  const TokenId id = require_token(
      draw_token(modify(logits, params, answer), draw_params(params, answer.size()), scratch_));
  return score(logits, id, params.logprobs);
}

SampledToken Sampler::score(std::span<const float> logits, TokenId id, int num_top) const {
  SampledToken result{.id = id};
  if (num_top < 0) return result;
  const float largest = logits[static_cast<std::size_t>(require_token(likeliest_token(logits)))];
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  const double log_sum = largest + std::log(sum);
  const auto logprob = [&](TokenId token) {
    return static_cast<float>(logits[static_cast<std::size_t>(token)] - log_sum);
  };
  result.logprob = logprob(id);

  // The best so far in order; a new one moves in from behind, so that the first of equals leads.
  const auto count = std::min(static_cast<std::size_t>(num_top), logits.size());
  std::vector<TokenId> best;
  for (std::size_t i = 0; i < logits.size() && count > 0; ++i) {
    if (best.size() == count && !(logits[i] > logits[static_cast<std::size_t>(best.back())]))
      continue;
    if (best.size() == count) best.pop_back();
    const auto at = std::upper_bound(best.begin(), best.end(), logits[i], [&](float x, TokenId b) {
      return x > logits[static_cast<std::size_t>(b)];
    });
    best.insert(at, static_cast<TokenId>(i));
  }
  for (const TokenId token : best) result.top.push_back({token, logprob(token)});
  return result;
}

std::span<const float> Sampler::modify(std::span<const float> logits, const SamplingParams& params,
                                       std::span<const TokenId> answer) {
  const bool penalises = params.presence_penalty != 0 || params.frequency_penalty != 0;
  if (params.logit_bias.empty() && !(penalises && !answer.empty())) return logits;
  std::copy(logits.begin(), logits.end(), modified_.begin());
  for (const auto& [id, bias] : params.logit_bias) modified_[static_cast<std::size_t>(id)] += bias;
  if (penalises) {
    std::map<TokenId, int> counts;
    for (const TokenId id : answer) ++counts[id];
    for (const auto& [id, count] : counts)
      modified_[static_cast<std::size_t>(id)] -=
          params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
  }
  return modified_;
}

}  // namespace barge
