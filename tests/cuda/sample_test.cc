// Tokens drawn by a GPU against Sampler.
#include "engine/random.h"
#include "engine/sampler.h"
#include "tests/cuda/fixture.h"
#include "tests/kernels/draw_cases.h"

namespace barge::cuda {
namespace {

class DrawTest : public CudaTest {
 protected:
  // A token for each row of logits.
  std::vector<std::int32_t> draw_all(Matrix& logits, const std::vector<DrawParams>& params) {
    const DeviceMatrix there(logits);
    const OnDevice<DrawParams> p(params);
    const OnDevice<std::int32_t> ids(std::vector<std::int32_t>(params.size(), -77));
    draw(stream(), there.view(), p.data(), ids.data());
    return ids.read();
  }
  std::int32_t draw_one(const std::vector<float>& row, const DrawParams& params) {
    Matrix logits(row, DType::kF32, 1, static_cast<std::int64_t>(row.size()));
    return draw_all(logits, {params})[0];
  }
};

std::int32_t sampled(const std::vector<float>& row, const DrawParams& params, std::uint64_t seed) {
  SamplingParams same;
  same.temperature = params.temperature;
  same.top_k = params.top_k;
  same.top_p = params.top_p;
  same.seed = seed;
  return Sampler(static_cast<int>(row.size())).sample(row, same, {}).id;
}

TEST_F(DrawTest, GivesTheTokensOfSamplerAwayFromRoundingsBorders) {
  int skipped = 0, compared = 0;
  for (const std::int64_t vocab : {1, 2, 33, 127, 1000, 5003}) {
    constexpr std::int64_t kRows = 9;
    const auto values = random_numbers(kRows * vocab, static_cast<std::uint32_t>(vocab));
    Matrix logits(DType::kF32, kRows, vocab, 5);
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < vocab; ++c) {
        const float x = values[r * vocab + c] * 3;
        logits.set(r, c, r % 2 == 0 ? x : std::nearbyint(x));  // half the rows have many equals
      }
    for (std::uint64_t seed = 0; seed < 9; ++seed) {  // each kind meets each row
      std::vector<DrawParams> params;
      for (DrawParams kind : kDrawKinds) {
        kind.uniform = uniform(seed, 0, 0);
        params.push_back(kind);
      }
      std::rotate(params.begin(), params.begin() + static_cast<std::ptrdiff_t>(seed % kRows),
                  params.end());
      const auto ids = draw_all(logits, params);
      for (std::int64_t r = 0; r < kRows; ++r) {
        std::vector<float> row;
        for (std::int64_t c = 0; c < vocab; ++c) row.push_back(logits.at(r, c));
        if (near_a_border(row, params[r])) {
          ++skipped;
          continue;
        }
        ++compared;
        ASSERT_EQ(ids[r], sampled(row, params[r], seed))
            << "vocabulary " << vocab << ", row " << r << ", seed " << seed << ", top_k "
            << params[r].top_k << ", top_p " << params[r].top_p;
      }
    }
  }
  EXPECT_LT(skipped, compared / 20) << "too many draws are near a border to show anything";
}

TEST_F(DrawTest, DrawsTheLikeliestOfEqualOnesTheFirstBelowTheGreedyTemperature) {
  std::vector<float> row(1000, -5.0f);
  row[700] = row[31] = row[999] = 2.5f;
  EXPECT_EQ(draw_one(row, {.temperature = 0}), 31);
  EXPECT_EQ(draw_one(row, {.temperature = 0.9e-5f, .uniform = 0.99}), 31);
  EXPECT_EQ(draw_one({-0.0f, 0.0f}, {.temperature = 0}), 0);
  EXPECT_EQ(draw_one({0.0f, -0.0f}, {.temperature = 0}), 0);
  EXPECT_EQ(draw_one({-3.0f, -1.0f, -2.0f}, {.temperature = 0}), 1);
}

TEST_F(DrawTest, TheUniformWalksThroughTheTokensInOrderAndNeverPastTheLast) {
  const std::vector<float> equal(40, 1.5f);  // each has 1/40
  for (const DrawParams& kind : {DrawParams{}, DrawParams{.top_k = 40}, DrawParams{.top_k = 50}})
    for (int i = 0; i < 40; ++i) {
      DrawParams params = kind;
      params.uniform = (i + 0.5) / 40;
      EXPECT_EQ(draw_one(equal, params), i) << "top_k " << kind.top_k;
    }
  EXPECT_EQ(draw_one(equal, {.uniform = 1 - 0x1p-53}), 39);
  EXPECT_EQ(draw_one(equal, {.top_k = 7, .uniform = 1 - 0x1p-53}), 6);
  EXPECT_EQ(draw_one(equal, {.top_p = 0.5f, .uniform = 1 - 0x1p-53}), 19);
}

TEST_F(DrawTest, TokensThatAreRuledOutAreNeverDrawn) {
  std::vector<float> row(300, -INFINITY);
  row[250] = 1;
  row[7] = 1;
  for (const DrawParams& kind :
       {DrawParams{}, DrawParams{.top_k = 100}, DrawParams{.top_p = 0.99f}})
    for (const double u : {0.0, 0.4999, 0.5001, 1 - 0x1p-53}) {
      DrawParams params = kind;
      params.uniform = u;
      EXPECT_EQ(draw_one(row, params), u < 0.5 ? 7 : 250);
    }
}

TEST_F(DrawTest, SaysThatNothingCanBeDrawnFromWhatIsNoNumber) {
  for (const float bad : {INFINITY, NAN, -NAN})
    for (const DrawParams& params :
         {DrawParams{.temperature = 0}, DrawParams{}, DrawParams{.top_k = 3}}) {
      std::vector<float> row(100, 0.5f);
      row[57] = bad;
      EXPECT_EQ(draw_one(row, params), -1) << bad;
    }
  EXPECT_EQ(draw_one(std::vector<float>(5, -INFINITY), {}), -1);
}

TEST_F(DrawTest, ARowsTokenDoesNotDependOnItsCompany) {
  constexpr std::int64_t kRows = 33, kVocab = 257;
  const auto values = random_numbers(kRows * kVocab, 5);
  Matrix logits(values, DType::kF32, kRows, kVocab);
  std::vector<DrawParams> params;
  for (int r = 0; r < kRows; ++r) {
    params.push_back(kDrawKinds[r % std::size(kDrawKinds)]);
    params.back().uniform = uniform(3, 0, static_cast<std::uint64_t>(r));
  }
  const auto together = draw_all(logits, params);
  for (int r = 0; r < kRows; ++r) {
    const auto first = values.begin() + r * kVocab;
    EXPECT_EQ(draw_one(std::vector(first, first + kVocab), params[r]), together[r]) << r;
  }
}

TEST_F(DrawTest, RefusesAVocabularyWhoseSumsCouldOverflow) {
  EXPECT_THROW(draw(stream(), {nullptr, DType::kF32, 1, 1 << 20, 1 << 20}, nullptr, nullptr),
               DeviceError);
}

}  // namespace
}  // namespace barge::cuda
