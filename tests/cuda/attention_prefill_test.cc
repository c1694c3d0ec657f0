// Prefill attention of a GPU against the plain one, and what design §7 asks of it.
#include "tests/cuda/attention_fixture.h"

namespace barge::cuda {
namespace {

using AttentionPrefillTest = CudaTest;

// On tensor cores: one query head for each KV head and up to 71, tiles that begin inside a row;
// heads that fill matrices of 16 and that don't. At the end row by row: exact, and wide heads.
constexpr AttentionShape kShapes[] = {
    {Encoding::kF16, 2, 2, 128, 64, 16}, {Encoding::kF16, 12, 1, 64, 64, 7},
    {Encoding::kF16, 3, 1, 96, 64, 5},   {Encoding::kF16, 4, 2, 8, 64, 1},
    {Encoding::kF16, 71, 1, 16, 64, 16}, {Encoding::kF16, 4, 2, 12, 64, 16},
    {Encoding::kF16, 2, 2, 24, 64, 64},  {Encoding::kQ4, 2, 2, 128, 64, 16},
    {Encoding::kQ4, 9, 3, 64, 64, 10},   {Encoding::kQ4, 4, 2, 80, 32, 3},
    {Encoding::kQ4, 1, 1, 112, 16, 16},  {Encoding::kQ4, 7, 1, 40, 8, 5},
    {Encoding::kQ4, 3, 3, 5, 64, 1},     {Encoding::kQ4, 10, 2, 12, 32, 16},
    {Encoding::kF32, 4, 2, 64, 64, 16},  {Encoding::kF16, 2, 1, 136, 64, 16},
};

bool on_tensor_cores(const AttentionShape& shape) {
  return shape.encoding != Encoding::kF32 && shape.head_dim <= kMostTensorHeadDim;
}

/// How far a result of values within `largest` may be off. On tensor cores a score is a sum of
/// products q k, each within 2^-11 of itself because q * scale is rounded to f16, and as much for a
/// decoded k; the sum of |q k| * scale is `products` at most. Relative errors of weights are twice
/// that at most (theirs and their sum's), and 2^-10 from rounding themselves; weights below 2^-14
/// are off by 2^-25 of the largest. Values of 4-bit KV are rounded as well.
float worst_error(const AttentionShape& shape, float products, int keys, float largest) {
  if (!on_tensor_cores(shape)) return 0x1p-16f;
  const float roundings = shape.encoding == Encoding::kQ4 ? 2 : 1;
  const float weights = 2 * products * roundings * 0x1p-11f + 0x1p-10f;
  return largest * (weights + static_cast<float>(keys) * 0x1p-25f + (roundings - 1) * 0x1p-11f);
}

// The largest sum of |q k| * scale of any query with any key that it may see.
float largest_products(const Sequences& sequences, int row, int first_row) {
  const AttentionShape& shape = sequences.shape();
  float largest = 0;
  for (int key = first_row; key <= row; ++key)
    for (int head = 0; head < shape.heads; ++head) {
      const int kv_head = head / (shape.heads / shape.kv_heads);
      float sum = 0;
      for (int d = 0; d < shape.head_dim; ++d)
        sum += std::fabs(sequences.q->at(row, head * shape.head_dim + d) *
                         sequences.k->at(key, kv_head * shape.head_dim + d));
      largest = std::max(largest, sum * sequences.scale());
    }
  return largest;
}

TEST_F(AttentionPrefillTest, AgreesWithTheReferenceInEveryEncodingShapeAndType) {
  const std::vector<int> lengths{1, 2, 33, 64, 97};
  for (const AttentionShape& shape : kShapes) {
    Sequences sequences(shape, lengths);
    const auto parts = sequences.everything(true);
    sequences.append_on_gpu(stream(), parts);
    sequences.append_on_host(reference(), parts);
    Matrix want(DType::kF32, sequences.rows(), sequences.width());
    sequences.attend_on_host(reference(), parts, want);
    finish_reference();
    for (const DType type : kTypes) {
      Matrix got(type, sequences.rows(), sequences.width(), type == DType::kF16 ? 8 : 1);
      sequences.attend_on_gpu(stream(), parts, got);
      double squares = 0;
      for (const Part& part : parts)
        for (int i = 0; i < part.rows; ++i) {
          const int r = sequences.row(part.sequence, i);
          const float error = worst_error(
              shape, largest_products(sequences, r, sequences.row(part.sequence, 0)), i + 1, 5);
          for (std::int64_t c = 0; c < sequences.width(); ++c) {
            const float difference = got.at(r, c) - want.at(r, c);
            squares += static_cast<double>(difference) * difference;
            ASSERT_LE(std::fabs(difference), error + rounding_of(type) * std::fabs(want.at(r, c)))
                << shape << ", sequence " << part.sequence << ", position " << i << ", column "
                << c;
          }
        }
      // The roundings are independent, each a third of 2^-11 or less: so is what they sum up to.
      const double spread =
          std::sqrt(squares / static_cast<double>(want.view().rows * want.view().cols));
      EXPECT_LE(spread, 0x1p-12 + rounding_of(type)) << shape;
      EXPECT_TRUE(got.padding_is_untouched());
      if (shape.head_dim > 64) break;  // types differ in the last step only
    }
  }
}

TEST_F(AttentionPrefillTest, GivesTheSameBitsHoweverAPromptIsCutIntoChunks) {
  for (const AttentionShape& shape : {AttentionShape{Encoding::kF16, 4, 4, 64, 64, 16},
                                      {Encoding::kQ4, 5, 1, 12, 32, 5},
                                      {Encoding::kQ4, 2, 1, 128, 64, 1},
                                      {Encoding::kF32, 2, 1, 16, 64, 16}}) {
    const int length = 150;
    Sequences whole(shape, {length});
    whole.append_on_gpu(stream(), whole.everything(true));
    Matrix want(DType::kF32, length, whole.width());
    whole.attend_on_gpu(stream(), whole.everything(true), want);
    for (const int chunk : {1, 7, 32, 64, 149}) {
      if (chunk == 1 && shape.head_dim > 16) continue;  // slow
      Sequences cut(shape, {length}, 3);  // pages elsewhere, and NaN where nothing is yet
      Matrix got(DType::kF32, length, cut.width());
      for (int at = 0; at < length; at += chunk) {
        const std::vector<Part> part{{0, at, std::min(chunk, length - at), true}};
        cut.append_on_gpu(stream(), part);
        cut.attend_on_gpu(stream(), part, got);
      }
      ASSERT_TRUE(got.bits(0, length) == want.bits(0, length)) << shape << ", chunks of " << chunk;
    }
  }
}

TEST_F(AttentionPrefillTest, ARowHasTheSameBitsBesideOtherPromptsAndDecodingSequences) {
  for (const Encoding encoding : {Encoding::kF16, Encoding::kQ4, Encoding::kF32}) {
    Sequences sequences({encoding, 6, 2, 32, 32, 16}, {70, 40, 5, 530});
    sequences.append_on_gpu(stream(), sequences.everything(true));
    const std::vector<Part> mixed{
        {3, 529, 1, false}, {0, 0, 70, true}, {2, 4, 1, false}, {1, 10, 30, true}};
    Matrix together(DType::kF32, sequences.rows(), sequences.width());
    sequences.attend_on_gpu(stream(), mixed, together);
    for (const Part& part : mixed) {
      Matrix alone(DType::kF32, sequences.rows(), sequences.width());
      sequences.attend_on_gpu(stream(), {part}, alone, 1);
      const int row = sequences.row(part.sequence, part.first);
      EXPECT_TRUE(alone.bits(row, part.rows) == together.bits(row, part.rows));
    }
    // What no span names is left alone.
    const Matrix untouched(DType::kF32, sequences.rows(), sequences.width());
    EXPECT_TRUE(together.bits(70, 10) == untouched.bits(70, 10));
  }
}

TEST_F(AttentionPrefillTest, SeesNothingOfLaterPositionsNotEvenOfNumbersThatAreNone) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kQ4}) {
    const AttentionShape shape{encoding, 2, 1, 40, 64, 8};
    Sequences clean(shape, {70}), poisoned(shape, {70});
    for (int c = 0; c < 40; ++c) {
      poisoned.k->set(45, c, c == 3 ? NAN : 1.0f);
      poisoned.v->set(60, c, c == 5 ? INFINITY : 1.0f);
    }
    Matrix want(DType::kF32, 70, 80), got(DType::kF32, 70, 80);
    for (auto* side : {&clean, &poisoned}) {
      side->append_on_gpu(stream(), side->everything(true));
      side->attend_on_gpu(stream(), side->everything(true), side == &clean ? want : got);
    }
    EXPECT_TRUE(got.bits(0, 45) == want.bits(0, 45));
    EXPECT_FALSE(got.bits(45, 25) == want.bits(45, 25));
    if (encoding == Encoding::kQ4) continue;  // stores neither
    EXPECT_TRUE(std::isnan(got.at(45, 3))) << "a query that sees a NaN mustn't hide it";
  }
}

TEST_F(AttentionPrefillTest, AValueThatIsNoNumberReachesThoseThatSeeItAndOnlyThem) {
  Sequences sequences({Encoding::kF16, 1, 1, 64, 64, 16}, {70});
  sequences.v->set(50, 7, NAN);
  sequences.append_on_gpu(stream(), sequences.everything(true));
  Matrix out(DType::kF32, 70, 64);
  sequences.attend_on_gpu(stream(), sequences.everything(true), out);
  for (int r = 0; r < 70; ++r) EXPECT_EQ(std::isnan(out.at(r, 7)), r >= 50) << "position " << r;
}

TEST_F(AttentionPrefillTest, TinyValuesBeforeHugeOnesKeepTheirBits) {
  // Tensor cores align what they add to the largest product. Those of weight 0 mustn't count, not
  // even with values of 2^15: the rows before them are the same where they aren't there yet.
  Sequences sequences({Encoding::kF16, 1, 1, 64, 64, 16}, {64}), begun(sequences.shape(), {64});
  for (auto* side : {&sequences, &begun})
    for (int r = 0; r < 64; ++r)
      for (int c = 0; c < 64; ++c)
        side->v->set(r, c, side->v->at(r, c) * (r < 37 ? 0x1p-14f : 0x1p+14f));
  Matrix want(DType::kF32, 64, 64), got(DType::kF32, 64, 64);
  sequences.append_on_gpu(stream(), sequences.everything(true));
  sequences.attend_on_gpu(stream(), sequences.everything(true), want);
  for (int r = 0; r < 37; ++r) {
    begun.append_on_gpu(stream(), {{0, r, 1, true}});
    begun.attend_on_gpu(stream(), {{0, r, 1, true}}, got);
  }
  EXPECT_TRUE(got.bits(0, 37) == want.bits(0, 37));
}

TEST_F(AttentionPrefillTest, TheSignOfAZeroDoesNotDependOnLaterPositions) {
  // What 32 keys sum up to underflows to -0 when a score 2^200 times as heavy comes; the products
  // of later keys with weight 0 are +0.
  Sequences sequences({Encoding::kF16, 1, 1, 8, 64, 16}, {60}), begun(sequences.shape(), {60});
  for (auto* side : {&sequences, &begun})
    for (int r = 0; r < 60; ++r)
      for (int c = 0; c < 8; ++c) {
        side->q->set(r, c, 10.0f);
        side->k->set(r, c, r == 32 ? 10.0f : 0.0f);
        side->v->set(r, c, r < 32 ? -1.0f : r == 32 ? -0.0f : 1.0f);
      }
  Matrix want(DType::kF32, 60, 8), got(DType::kF32, 60, 8);
  sequences.append_on_gpu(stream(), sequences.everything(true));
  sequences.attend_on_gpu(stream(), sequences.everything(true), want);
  begun.append_on_gpu(stream(), {{0, 0, 33, true}});
  begun.attend_on_gpu(stream(), {{0, 0, 33, true}}, got);
  EXPECT_EQ(got.at(32, 0), 0.0f);
  EXPECT_TRUE(got.bits(0, 33) == want.bits(0, 33));
}

TEST_F(AttentionPrefillTest, WeighsALargeScoreAloneWithoutOverflow) {
  Sequences sequences({Encoding::kF16, 1, 1, 8, 64, 3}, {40});
  for (int c = 0; c < 8; ++c) {
    sequences.q->set(39, c, 1.0f);
    sequences.k->set(17, c, 10000.0f);
    sequences.v->set(17, c, 0.25f);
  }
  sequences.append_on_gpu(stream(), sequences.everything(true));
  Matrix out(DType::kF32, 40, 8);
  sequences.attend_on_gpu(stream(), sequences.everything(true), out);
  EXPECT_EQ(out.at(39, 3), 0.25f);
}

}  // namespace
}  // namespace barge::cuda
