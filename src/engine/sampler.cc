#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/errors.h"
#include "engine/random.h"

namespace barge {
namespace {

constexpr float kGreedyTemperature = 1e-5f;  // below: the likeliest token (vLLM's bound)

// The likeliest token; of equal ones the first.
TokenId likeliest(std::span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(*best))
    throw Error(concat("cannot draw a token: the model's largest logit is ", *best,
                       "; the checkpoint or the number format overflows"));
  return static_cast<TokenId>(best - logits.begin());
}

}  // namespace

Sampler::Sampler(int vocab)
    : modified_(static_cast<std::size_t>(vocab)),
      weights_(static_cast<std::size_t>(vocab)),
      order_(static_cast<std::size_t>(vocab)) {}

std::size_t Sampler::scratch_bytes(int vocab) {
  return static_cast<std::size_t>(vocab) * (2 * sizeof(float) + sizeof(TokenId));
}

SampledToken Sampler::sample(std::span<const float> logits, const SamplingParams& params,
                             std::span<const TokenId> answer, std::optional<TokenId> forced) {
  if (forced) return score(logits, *forced, params.logprobs);
  const std::span<const float> modified = modify(logits, params, answer);
  const TokenId id =
      params.temperature < kGreedyTemperature
          ? likeliest(modified)
          : draw(modified, params,
                 uniform(params.seed, static_cast<std::uint64_t>(params.choice), answer.size()));
  return score(logits, id, params.logprobs);
}

SampledToken Sampler::score(std::span<const float> logits, TokenId id, int num_top) const {
  SampledToken result{.id = id};
  if (num_top < 0) return result;
  const float largest = logits[static_cast<std::size_t>(likeliest(logits))];
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

TokenId Sampler::draw(std::span<const float> logits, const SamplingParams& params, double uniform) {
  const float largest = logits[static_cast<std::size_t>(likeliest(logits))];
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = std::exp((logits[i] - largest) / params.temperature);
    total += weights_[i];
  }
  if (!std::isfinite(total)) throw Error("cannot draw a token: some of the logits are no numbers");
  if (params.top_k > 0 || params.top_p < 1) return draw_truncated(logits, params, uniform);
  double left = uniform * total;
  TokenId last = 0;  // rounding may leave a rest at the end: then the last one that has a chance
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (weights_[i] == 0) continue;
    last = static_cast<TokenId>(i);
    left -= weights_[i];
    if (left < 0) break;
  }
  return last;
}

// Weights are in weights_. Sorts no more tokens than it keeps, but for a factor.
TokenId Sampler::draw_truncated(std::span<const float> logits, const SamplingParams& params,
                                double uniform) {
  const auto better = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto weight = [&](TokenId id) { return weights_[static_cast<std::size_t>(id)]; };
  std::iota(order_.begin(), order_.end(), 0);
  auto end = order_.end();
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < order_.size()) {
    end = order_.begin() + params.top_k;
    std::nth_element(order_.begin(), end, order_.end(), better);
    std::sort(order_.begin(), end, better);
  }
  double total = 0;
  for (auto it = order_.begin(); it != end; ++it) total += weight(*it);

  // Keeps the likeliest tokens until their weights reach top_p of the total.
  const double enough = params.top_p < 1 ? params.top_p * total : total;
  auto kept = order_.begin(), sorted = order_.begin();
  double sum = 0;
  std::ptrdiff_t step = 64;
  while (kept != end && (kept == order_.begin() || sum < enough)) {
    if (kept == sorted) {
      sorted = end - kept > step ? kept + step : end;
      if (sorted != end) std::nth_element(kept, sorted, end, better);
      std::sort(kept, sorted, better);
      step *= 4;
    }
    sum += weight(*kept++);
  }
  double left = uniform * sum;
  for (auto it = order_.begin(); it != kept; ++it) {
    left -= weight(*it);
    if (left < 0) return *it;
  }
  return *(kept - 1);
}

}  // namespace barge
