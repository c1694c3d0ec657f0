// Decode attention of a GPU against the plain one.
#include "core/errors.h"
#include "tests/cuda/attention_fixture.h"

namespace barge::cuda {
namespace {

using AttentionDecodeTest = CudaTest;

// A query head for each KV head up to nine passes over one; heads that are whole words, parts of
// them and wider than real ones.
constexpr AttentionShape kShapes[] = {
    {Encoding::kF32, 4, 4, 33, 64, 5},   {Encoding::kF32, 9, 3, 64, 64, 16},
    {Encoding::kF32, 2, 1, 256, 64, 1},  {Encoding::kF32, 8, 1, 80, 64, 16},
    {Encoding::kF16, 2, 2, 128, 64, 64}, {Encoding::kF16, 12, 1, 64, 64, 7},
    {Encoding::kF16, 3, 1, 96, 64, 16},  {Encoding::kF16, 4, 2, 8, 64, 1},
    {Encoding::kF16, 71, 1, 16, 64, 16}, {Encoding::kF16, 4, 2, 12, 64, 16},
    {Encoding::kF16, 1, 1, 248, 64, 5},  {Encoding::kQ4, 2, 2, 128, 64, 16},
    {Encoding::kQ4, 9, 3, 64, 64, 10},   {Encoding::kQ4, 4, 2, 80, 32, 3},
    {Encoding::kQ4, 4, 2, 64, 32, 5},    {Encoding::kQ4, 16, 2, 128, 128, 16},
    {Encoding::kQ4, 3, 3, 112, 16, 16},  {Encoding::kQ4, 7, 1, 96, 8, 5},
    {Encoding::kQ4, 3, 3, 5, 64, 1},     {Encoding::kQ4, 10, 2, 12, 32, 16},
    {Encoding::kQ4, 1, 1, 256, 64, 16},  {Encoding::kQ4, 2, 1, 36, 8, 4},
};

std::vector<Part> last_rows(const std::vector<int>& lengths) {
  std::vector<Part> parts;
  for (int s = 0; s < static_cast<int>(lengths.size()); ++s)
    parts.push_back({s, lengths[s] - 1, 1, false});
  return parts;
}

TEST_F(AttentionDecodeTest, AgreesWithTheReferenceInEveryEncodingShapeAndType) {
  const std::vector<int> lengths{1, 2, 31, 64, 65, 131};
  for (const AttentionShape& shape : kShapes) {
    Sequences sequences(shape, lengths);
    sequences.append_on_gpu(stream(), sequences.everything(true));
    sequences.append_on_host(reference(), sequences.everything(true));
    auto parts = last_rows(lengths);
    parts.push_back({5, 3, 2, false});  // replayed tokens may be several
    Matrix want(DType::kF32, sequences.rows(), sequences.width());
    sequences.attend_on_host(reference(), parts, want);
    finish_reference();
    for (const DType type : kTypes) {
      Matrix got(type, sequences.rows(), sequences.width(), 1);
      sequences.attend_on_gpu(stream(), parts, got);
      // Scores |s| < 8 from up to 256 products, each rounded to 2^-24: weights are off by some
      // 2^-18 of themselves, and so is their mean of values |v| < 5.
      for (const Part& part : parts)
        for (int r = sequences.row(part.sequence, part.first), i = 0; i < part.rows; ++i, ++r)
          for (std::int64_t c = 0; c < sequences.width(); ++c)
            ASSERT_NEAR(got.at(r, c), want.at(r, c),
                        0x1p-16f + rounding_of(type) * std::fabs(want.at(r, c)))
                << shape << ", position " << part.first + i << ", column " << c;
      EXPECT_TRUE(got.padding_is_untouched());
      if (shape.head_dim > 64) break;  // types differ in the last step only
    }
  }
}

TEST_F(AttentionDecodeTest, MergesChunksOfLongRows) {
  const std::vector<int> lengths{511, 512, 513, 1600};
  for (const AttentionShape& shape :
       {AttentionShape{Encoding::kF16, 2, 1, 16, 64, 16}, {Encoding::kQ4, 1, 1, 64, 64, 5}}) {
    Sequences sequences(shape, lengths);
    sequences.append_on_gpu(stream(), sequences.everything(true));
    sequences.append_on_host(reference(), sequences.everything(true));
    const auto parts = last_rows(lengths);
    Matrix want(DType::kF32, sequences.rows(), sequences.width());
    Matrix got(DType::kF32, sequences.rows(), sequences.width());
    sequences.attend_on_host(reference(), parts, want);
    finish_reference();
    sequences.attend_on_gpu(stream(), parts, got);
    for (int s = 0; s < 4; ++s)
      for (std::int64_t c = 0; c < sequences.width(); ++c) {
        const int r = sequences.row(s, lengths[s] - 1);
        ASSERT_NEAR(got.at(r, c), want.at(r, c), 0x1p-16f) << shape << ", sequence " << s;
      }
  }
}

TEST_F(AttentionDecodeTest, TakesLongerChunksOfARowThatWouldHaveTooMany) {
  constexpr int kKeys = static_cast<int>(kChunkKeys * kMostChunks) + 700;
  Sequences sequences({Encoding::kF16, 1, 1, 32, 64, 512}, {kKeys});
  sequences.append_on_gpu(stream(), sequences.everything(true));
  sequences.append_on_host(reference(), sequences.everything(true));
  const std::vector<Part> last{{0, kKeys - 1, 1, false}};
  Matrix want(DType::kF32, kKeys, 32), got(DType::kF32, kKeys, 32);
  sequences.attend_on_host(reference(), last, want);
  finish_reference();
  sequences.attend_on_gpu(stream(), last, got, 1);
  for (int c = 0; c < 32; ++c) ASSERT_NEAR(got.at(kKeys - 1, c), want.at(kKeys - 1, c), 0x1p-16f);
}

TEST_F(AttentionDecodeTest, ARowHasTheSameBitsInAnyCompanyAndAtAnyAddress) {
  for (const AttentionShape& shape : {AttentionShape{Encoding::kF16, 4, 2, 64, 64, 16},
                                      {Encoding::kQ4, 3, 1, 128, 64, 5},
                                      {Encoding::kF32, 2, 2, 12, 64, 1}}) {
    const std::vector<int> lengths{3, 700, 40, 1030};
    Sequences sequences(shape, lengths, 1), moved(shape, lengths, 2);
    sequences.append_on_gpu(stream(), sequences.everything(true));
    moved.append_on_gpu(stream(), moved.everything(true));
    Matrix together(DType::kF32, sequences.rows(), sequences.width());
    sequences.attend_on_gpu(stream(), last_rows(lengths), together);
    for (const Part& part : last_rows(lengths)) {
      Matrix alone(DType::kF32, sequences.rows(), sequences.width());
      moved.attend_on_gpu(stream(), {part}, alone, 1);
      const int row = sequences.row(part.sequence, part.first);
      ASSERT_TRUE(alone.bits(row, 1) == together.bits(row, 1)) << shape << ", row " << row;
    }
  }
}

TEST_F(AttentionDecodeTest, TakesSplitRowsInWavesThatTheWorkspaceHolds) {
  // 70 rows of two chunks; a workspace for one row holds the parts of 32.
  Sequences sequences({Encoding::kF32, 1, 1, 8, 64, 64}, {590, 5});
  sequences.append_on_gpu(stream(), sequences.everything(true));
  Matrix at_once(DType::kF32, 595, 8), in_waves(DType::kF32, 595, 8);
  const std::vector<Part> parts{{0, 0, 2, false}, {0, 520, 70, false}, {1, 0, 5, false}};
  sequences.attend_on_gpu(stream(), parts, at_once);
  sequences.attend_on_gpu(stream(), parts, in_waves, 1);
  EXPECT_TRUE(at_once.bits(0, 595) == in_waves.bits(0, 595));
  EXPECT_NE(at_once.at(589, 0), at_once.at(519, 0));  // which nothing wrote
}

TEST_F(AttentionDecodeTest, SeesNothingOfLaterPositionsNotEvenOfNumbersThatAreNone) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kQ4}) {
    const AttentionShape shape{encoding, 2, 1, 64, 64, 8};
    Sequences clean(shape, {70}), poisoned(shape, {70});
    for (int c = 0; c < 64; ++c) {
      poisoned.k->set(69, c, NAN);
      poisoned.v->set(69, c, INFINITY);
    }
    Matrix want(DType::kF32, 70, 128), got(DType::kF32, 70, 128);
    for (auto* side : {&clean, &poisoned}) {
      side->append_on_gpu(stream(), side->everything(false));
      side->attend_on_gpu(stream(), {{0, 60, 9, false}}, side == &clean ? want : got);
    }
    EXPECT_TRUE(got.bits(60, 9) == want.bits(60, 9));
  }
}

TEST_F(AttentionDecodeTest, WeighsALargeScoreAloneWithoutOverflow) {
  Sequences sequences({Encoding::kF32, 1, 1, 8, 64, 3}, {40});
  for (int c = 0; c < 8; ++c) {
    sequences.q->set(39, c, 1.0f);
    sequences.k->set(17, c, 10000.0f);
    sequences.v->set(17, c, 0.25f);
  }
  sequences.append_on_gpu(stream(), sequences.everything(false));
  Matrix out(DType::kF32, 40, 8);
  sequences.attend_on_gpu(stream(), {{0, 39, 1, false}}, out);
  EXPECT_EQ(out.at(39, 3), 0.25f);
}

TEST_F(AttentionDecodeTest, RefusesHeadsAndGroupsThatItHasNoKernelFor) {
  for (const AttentionShape& shape : {AttentionShape{Encoding::kF32, 1, 1, 257, 64, 4},
                                      {Encoding::kF32, 3, 2, 8, 64, 4},
                                      {Encoding::kQ4, 1, 1, 64, 12, 4}}) {
    Sequences sequences(shape, {1});
    Matrix out(DType::kF32, 1, sequences.width());
    EXPECT_THROW(sequences.attend_on_gpu(stream(), sequences.everything(false), out), ConfigError)
        << shape;
  }
}

TEST(AttentionWorkTest, CutsARowIntoNoMoreChunksThanTheWorkspaceIsMadeFor) {
  const std::vector<std::byte*> pages(1000);
  for (const int keys : {1, 512, 513, 32768, 32769, 100001}) {
    const AttentionSpan span{.rows = 1, .first_position = keys - 1, .pages = pages};
    const AttentionWork work({&span, 1}, {Encoding::kF16, 1, 64, 64}, 1024, 1);
    const auto chunks = work.chunks().in(work.bytes());
    ASSERT_LE(chunks.size(), static_cast<std::size_t>(kMostChunks));
    EXPECT_EQ(work.split_rows().count, keys > 512 ? 1u : 0u);
    int next = 0;
    for (const RowChunk& chunk : chunks) {
      EXPECT_EQ(chunk.first_key, next);
      EXPECT_EQ(chunk.first_key % kChunkKeys, 0);
      next = chunk.end_key;
    }
    EXPECT_EQ(next, keys);
  }
}

}  // namespace
}  // namespace barge::cuda
