#include "engine/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "core/errors.h"
#include "engine/logits_hash.h"
#include "engine/random.h"

namespace barge {
namespace {

std::vector<float> random_logits(int vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  for (float& x : logits) x = normal(random);
  return logits;
}

// How often each token is drawn over `draws` seeds.
std::vector<int> histogram(std::span<const float> logits, SamplingParams params, int draws) {
  Sampler sampler(static_cast<int>(logits.size()));
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    params.seed = static_cast<std::uint64_t>(i);
    ++counts[static_cast<std::size_t>(sampler.sample(logits, params, {}).id)];
  }
  return counts;
}

// Counts of `draws` tokens follow `weights`: each within five standard deviations.
void expect_follows(const std::vector<int>& counts, const std::vector<double>& weights, int draws) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double p = weights[i] / total;
    EXPECT_NEAR(counts[i], draws * p, 5 * std::sqrt(draws * p * (1 - p)) + 1e-9) << "token " << i;
  }
}

TEST(Sampler, GreedyTakesTheLikeliestAndOfEqualOnesTheFirst) {
  const std::vector<float> logits{1, 3, 2, 3};
  Sampler sampler(4);
  EXPECT_EQ(sampler.sample(logits, {.temperature = 0}, {}).id, 1);
}

TEST(Sampler, DrawsInProportionToTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits{0, 1, 2, -1, 0.5};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    std::vector<double> weights;
    for (const float x : logits) weights.push_back(std::exp(x / temperature));
    expect_follows(histogram(logits, {.temperature = temperature}, 8000), weights, 8000);
  }
}

TEST(Sampler, TopKKeepsTheLikeliestAndTheirProportions) {
  const std::vector<float> logits{0, 1, 2, -1, 0.5};
  const auto counts = histogram(logits, {.top_k = 2}, 8000);
  expect_follows(counts, {0, std::exp(1.0), std::exp(2.0), 0, 0}, 8000);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  std::vector<float> logits;
  for (const double p : {0.1, 0.4, 0.15, 0.3, 0.05})
    logits.push_back(static_cast<float>(std::log(p)));
  expect_follows(histogram(logits, {.top_p = 0.75f}, 8000), {0, 0.4, 0.15, 0.3, 0}, 8000);
  expect_follows(histogram(logits, {.top_p = 0.65f}, 8000), {0, 0.4, 0, 0.3, 0}, 8000);
  expect_follows(histogram(logits, {.top_p = 0}, 100), {0, 1, 0, 0, 0}, 100);
}

TEST(Sampler, TopPCountsOnlyWhatTopKLeft) {
  std::vector<float> logits;
  for (const double p : {0.1, 0.4, 0.15, 0.3, 0.05})
    logits.push_back(static_cast<float>(std::log(p)));
  // Of 0.4, 0.3 and 0.15 the first two are 0.82.
  expect_follows(histogram(logits, {.top_p = 0.8f, .top_k = 3}, 8000), {0, 0.4, 0, 0.3, 0}, 8000);
}

TEST(Sampler, TopPOfAFlatVocabularyKeepsItsShareOfIt) {
  constexpr int kVocab = 301;  // more than two steps of sorting; half of it is 150.5 tokens
  const std::vector<float> logits(kVocab, 1.0f);
  const auto counts = histogram(logits, {.top_p = 0.5f}, 6000);
  for (std::size_t i = 0; i < kVocab; ++i)  // of equal ones the first are kept
    EXPECT_EQ(counts[i] > 0, i <= kVocab / 2) << i;
}

TEST(Sampler, TruncationThatKeepsAllDrawsLikeNone) {
  const auto logits = random_logits(117, 3);
  std::vector<double> weights;
  for (const float x : logits) weights.push_back(std::exp(x));
  expect_follows(histogram(logits, {.top_p = 1, .top_k = 117}, 8000), weights, 8000);
  expect_follows(histogram(logits, {.top_p = std::nextafter(1.0f, 0.0f)}, 8000), weights, 8000);
}

TEST(Sampler, PenalisesWhatTheAnswerHasSaid) {
  const std::vector<float> logits{2.0f, 1.5f, 1.0f};
  Sampler sampler(3);
  SamplingParams params{.temperature = 0};
  params.presence_penalty = 0.6f;
  EXPECT_EQ(sampler.sample(logits, params, std::vector<TokenId>{}).id, 0);
  EXPECT_EQ(sampler.sample(logits, params, std::vector<TokenId>{0}).id, 1);
  EXPECT_EQ(sampler.sample(logits, params, std::vector<TokenId>{0, 1}).id, 0);
  params.presence_penalty = 0;
  params.frequency_penalty = 0.4f;
  EXPECT_EQ(sampler.sample(logits, params, std::vector<TokenId>{0}).id, 0);
  EXPECT_EQ(sampler.sample(logits, params, std::vector<TokenId>{0, 0}).id, 1);
}

TEST(Sampler, AddsLogitBiasButReportsTheModelsOwnLogprobs) {
  const std::vector<float> logits{0, 0, 0, 0};
  Sampler sampler(4);
  SamplingParams params{.temperature = 0};
  params.logit_bias = {{2, 5.0f}, {3, -100.0f}};
  params.logprobs = 0;
  const SampledToken token = sampler.sample(logits, params, {});
  EXPECT_EQ(token.id, 2);
  EXPECT_FLOAT_EQ(token.logprob, std::log(0.25f));
  EXPECT_TRUE(token.top.empty());
}

TEST(Sampler, ListsTheLikeliestTokensInOrder) {
  const auto logits = random_logits(1000, 9);
  Sampler sampler(1000);
  SamplingParams params{.temperature = 0};
  params.logprobs = 7;
  const SampledToken token = sampler.sample(logits, params, {});
  std::vector<TokenId> order(1000);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  ASSERT_EQ(token.top.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(token.top[i].id, order[i]);
    // logit - log(sum): a few roundings of f32 at magnitudes below 16.
    EXPECT_NEAR(token.top[i].logprob, logits[order[i]] - std::log(sum), 4 * 0x1p-20);
  }
  EXPECT_EQ(token.id, order[0]);
  EXPECT_EQ(token.logprob, token.top[0].logprob);
}

TEST(Sampler, ListsEachTokenOnceWhereMoreAreAskedForThanThereAre) {
  Sampler sampler(3);
  const std::vector<float> logits{1, 1, 1};
  const SampledToken token = sampler.score(logits, 1, 5);
  ASSERT_EQ(token.top.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(token.top[static_cast<std::size_t>(i)].id, i);
}

TEST(Sampler, ReportsAForcedTokenWithItsLogprob) {
  Sampler sampler(3);
  const std::vector<float> logits{std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  SamplingParams params;
  params.logprobs = 1;
  const SampledToken token = sampler.sample(logits, params, {}, 2);
  EXPECT_EQ(token.id, 2);
  EXPECT_NEAR(token.logprob, std::log(0.25f), 1e-6);
  EXPECT_EQ(token.top[0].id, 0);
}

TEST(Sampler, RefusesLogitsThatAreNoNumbers) {
  Sampler sampler(3);
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const auto& logits : {std::vector{nan, 0.f, 0.f}, std::vector{0.f, infinity, 0.f},
                             std::vector{-infinity, -infinity, -infinity}})
    EXPECT_THROW((void)sampler.sample(logits, {}, {}), Error);
  EXPECT_THROW((void)sampler.sample(std::vector{0.f, nan, 0.f}, {}, {}), Error);
}

TEST(Sampler, DrawsTheSameForTheSameSeedChoiceAndPositionOnly) {
  const auto logits = random_logits(5000, 1);
  Sampler a(5000), b(5000);
  std::set<TokenId> drawn;
  const std::vector<TokenId> answer(7, 3);
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (int choice = 0; choice < 4; ++choice) {
      SamplingParams params{.temperature = 3, .seed = seed, .choice = choice};
      const TokenId id = a.sample(logits, params, answer).id;
      (void)b.sample(logits, params, {});  // b has drawn something else before
      EXPECT_EQ(id, b.sample(logits, params, answer).id);
      drawn.insert(id);
    }
  EXPECT_GT(drawn.size(), 10u);
}

TEST(Uniform, IsEvenOverPositionsChoicesAndSeeds) {
  const int n = 16000, bins = 16;
  for (int what = 0; what < 3; ++what) {
    std::vector<int> counts(bins);
    for (int i = 0; i < n; ++i) {
      const auto u = static_cast<std::uint64_t>(i);
      const double x = what == 0   ? uniform(u, 0, 0)
                       : what == 1 ? uniform(9, u, 0)
                                   : uniform(9, 0, u);
      ASSERT_TRUE(x >= 0 && x < 1);
      ++counts[static_cast<std::size_t>(x * bins)];
    }
    expect_follows(counts, std::vector<double>(bins, 1), n);
  }
}

TEST(HashBits, SeesEveryBitAndTheOrder) {
  std::vector<float> numbers(19, 0.5f);
  const std::uint64_t before = hash_bits(numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    auto changed = numbers;
    changed[i] = std::nextafter(0.5f, 1.0f);
    EXPECT_NE(hash_bits(changed), before) << i;
  }
  numbers[0] = 0.0f;
  const std::uint64_t zero = hash_bits(numbers);
  numbers[0] = -0.0f;
  EXPECT_NE(hash_bits(numbers), zero);
  EXPECT_NE(combine_hash(1, 2), combine_hash(2, 1));
  EXPECT_NE(hash_bits(std::vector{1.f, 2.f}), hash_bits(std::vector{2.f, 1.f}));
}

}  // namespace
}  // namespace barge
