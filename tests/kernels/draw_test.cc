// Tokens drawn from logits: the fast kernels against the reference.
#include "tests/kernels/draw_cases.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/kernels/every_isa.h"
#include "tests/kernels/fixture.h"

namespace barge {
namespace {

class DrawTest : public KernelsTest {
 protected:
  DrawTest() { make(DType::kF32); }

  // A token for each row.
  std::vector<std::int32_t> draw_all(Kernels& table, Matrix& logits,
                                     std::vector<DrawParams> params) {
    std::vector<std::int32_t> ids(params.size(), -77);
    table.draw(logits.view(), params, ids.data());
    params.assign(params.size(), {});  // a list is needed only until the call returns
    finish();
    return ids;
  }
  std::int32_t draw_one(Kernels& table, const std::vector<float>& row, const DrawParams& params) {
    Matrix logits(row, DType::kF32, 1, static_cast<std::int64_t>(row.size()));
    return draw_all(table, logits, {params})[0];
  }
};

// Each kind in turn, with numbers of its own.
std::vector<DrawParams> kinds(std::int64_t rows, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<DrawParams> params;
  for (std::int64_t r = 0; r < rows; ++r) {
    params.push_back(kDrawKinds[static_cast<std::size_t>(r + seed) % std::size(kDrawKinds)]);
    params.back().uniform = uniform(random);
  }
  return params;
}

TEST_F(DrawTest, AgreesWithTheReferenceAwayFromRoundingsBorders) {
  int skipped = 0, compared = 0;
  for (const std::int64_t vocab : {1, 2, 33, 127, 1000, 5003})
    for (std::uint32_t seed = 0; seed < 9; ++seed) {
      constexpr std::int64_t kRows = 9;
      Matrix logits(random_numbers(kRows * vocab, seed), DType::kF32, kRows, vocab, 5);
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t c = 0; c < vocab; ++c) {
          const float x = logits.at(r, c) * 3;
          logits.set(r, c, r % 2 == 0 ? x : std::nearbyint(x));  // half the rows have many equals
        }
      const auto params = kinds(kRows, seed);
      const auto want = draw_all(reference(), logits, params);
      std::vector<bool> sure;  // rows whose token doesn't hang on rounding
      for (std::int64_t r = 0; r < kRows; ++r) {
        std::vector<float> row;
        for (std::int64_t c = 0; c < vocab; ++c) row.push_back(logits.at(r, c));
        sure.push_back(!near_a_border(row, params[r]));
        ++(sure.back() ? compared : skipped);
      }
      for_every_isa([&] {
        const auto got = draw_all(fast(), logits, params);
        for (std::int64_t r = 0; r < kRows; ++r) {
          if (!sure[r]) continue;
          ASSERT_EQ(got[r], want[r])
              << "vocabulary " << vocab << ", row " << r << ", seed " << seed << ", top_k "
              << params[r].top_k << ", top_p " << params[r].top_p;
        }
      });
    }
  EXPECT_LT(skipped, compared / 20) << "too many draws are near a border to show anything";
}

TEST_F(DrawTest, TheUniformWalksThroughTheTokensInOrderAndNeverPastTheLast) {
  const std::vector<float> equal(40, 1.5f);  // each has 1/40
  std::vector<float> ruled_out(300, -INFINITY);
  ruled_out[7] = ruled_out[250] = 1;
  for (Kernels* table : {&fast(), &reference()}) {
    for (const int top_k : {0, 40, 50})
      for (int i = 0; i < 40; ++i)
        EXPECT_EQ(draw_one(*table, equal, {.top_k = top_k, .uniform = (i + 0.5) / 40}), i);
    EXPECT_EQ(draw_one(*table, equal, {.uniform = 1 - 0x1p-53}), 39);
    EXPECT_EQ(draw_one(*table, equal, {.top_k = 7, .uniform = 1 - 0x1p-53}), 6);
    EXPECT_EQ(draw_one(*table, equal, {.top_p = 0.5f, .uniform = 1 - 0x1p-53}), 19);
    for (const int top_k : {0, 100})
      for (const double u : {0.0, 0.4999, 0.5001, 1 - 0x1p-53})
        EXPECT_EQ(draw_one(*table, ruled_out, {.top_k = top_k, .uniform = u}), u < 0.5 ? 7 : 250);
  }
}

TEST_F(DrawTest, FindsTheLikeliestWhereverTheyLieAndHoweverManyAreEqual) {
  constexpr int kVocab = 5000;  // many blocks, the last one partial
  std::vector<float> alone(kVocab, -3.0f);
  for (const int at : {4999, 64, 63, 2500}) alone[static_cast<std::size_t>(at)] = 20;
  std::vector<float> steps(kVocab);  // falling from the end to the front
  for (int i = 0; i < kVocab; ++i)
    steps[static_cast<std::size_t>(i)] = 1e-4f * static_cast<float>(i);
  const std::vector<float> equal(kVocab, 0.25f);
  for (Kernels* table : {&fast(), &reference()}) {
    constexpr int kLikeliest[] = {63, 64, 2500, 4999};
    for (int i = 0; i < 4; ++i)
      for (const DrawParams& params : {DrawParams{.top_k = 4}, DrawParams{.top_p = 0.99f}}) {
        DrawParams at = params;
        at.uniform = (i + 0.5) / 4;
        EXPECT_EQ(draw_one(*table, alone, at), kLikeliest[i]) << "top_k " << params.top_k;
      }
    EXPECT_EQ(draw_one(*table, steps, {.top_k = 3000, .uniform = 0}), 4999);
    EXPECT_EQ(draw_one(*table, steps, {.top_k = 3000, .uniform = 1 - 0x1p-53}), 2000);
    EXPECT_EQ(draw_one(*table, equal, {.top_k = 70, .uniform = 1 - 0x1p-53}), 69);
    EXPECT_EQ(draw_one(*table, equal, {.top_p = 0.5001f, .uniform = 1 - 0x1p-53}), 2500);
  }
}

TEST_F(DrawTest, DrawsTheLikeliestOfEqualOnesTheFirstBelowTheGreedyTemperature) {
  std::vector<float> row(1000, -5.0f);
  row[700] = row[31] = row[999] = 2.5f;
  for (Kernels* table : {&fast(), &reference()}) {
    EXPECT_EQ(draw_one(*table, row, {.temperature = 0}), 31);
    EXPECT_EQ(draw_one(*table, row, {.temperature = 0.9e-5f, .uniform = 0.99}), 31);
    EXPECT_EQ(draw_one(*table, {0.0f, -0.0f}, {.temperature = 0}), 0);
  }
}

TEST_F(DrawTest, SaysThatNothingCanBeDrawnFromWhatIsNoNumber) {
  for (Kernels* table : {&fast(), &reference()})
    for (const DrawParams& params :
         {DrawParams{.temperature = 0}, DrawParams{}, DrawParams{.top_k = 3}}) {
      for (const float bad : {INFINITY, NAN, -NAN})
        for (const std::size_t at : {0, 57}) {
          std::vector<float> row(100, 0.5f);
          row[at] = bad;
          EXPECT_EQ(draw_one(*table, row, params), -1) << bad << " at " << at;
        }
      EXPECT_EQ(draw_one(*table, std::vector<float>(5, -INFINITY), params), -1);
    }
}

TEST_F(DrawTest, ARowsTokenDoesNotDependOnItsCompany) {
  constexpr std::int64_t kRows = 133, kVocab = 257;  // more than one task for three threads
  const auto values = random_numbers(kRows * kVocab, 5);
  Matrix logits(values, DType::kF32, kRows, kVocab);
  const auto params = kinds(kRows, 3);
  const auto together = draw_all(fast(), logits, params);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto first = values.begin() + r * kVocab;
    EXPECT_EQ(draw_one(fast(), std::vector(first, first + kVocab), params[r]), together[r]) << r;
  }
}

}  // namespace
}  // namespace barge
