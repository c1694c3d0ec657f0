#include <gmock/gmock.h>

#include "core/errors.h"
#include "tests/kernels/every_isa.h"
#include "tests/kernels/fixture.h"

namespace barge {
namespace {

struct Shape {
  Encoding encoding;
  int heads, kv_heads, head_dim, group, page_positions;
};

// Grouped and plain heads, dimensions that are multiples of nothing, pages of any length.
const Shape kShapes[] = {
    {Encoding::kF32, 4, 4, 33, 64, 5},  {Encoding::kF32, 9, 3, 64, 64, 16},
    {Encoding::kF16, 12, 1, 64, 64, 7}, {Encoding::kF16, 2, 2, 128, 64, 64},
    {Encoding::kQ4, 9, 3, 64, 64, 10},  {Encoding::kQ4, 4, 2, 80, 32, 3},
    {Encoding::kQ4, 3, 3, 5, 64, 1},    {Encoding::kQ4, 2, 1, 33, 5, 4},
};

// Some sequences with a KV cache of their own, and the q, k, v rows of all their positions.
class Sequences {
 public:
  Sequences(const Shape& shape, std::vector<int> lengths)
      : shape_(shape),
        format_{shape.encoding, shape.kv_heads, shape.head_dim, shape.group},
        lengths_(std::move(lengths)) {
    std::int64_t rows = 0;
    for (const int length : lengths_) {
      first_.push_back(rows);
      rows += length;
      auto& pages = pages_.emplace_back();
      for (int at = 0; at < length; at += shape.page_positions) {
        memory_.emplace_back(
            format_.record_bytes() * static_cast<std::size_t>(shape.page_positions),
            std::byte{0xff});  // as f16 or f32: NaN
        pages.push_back(memory_.back().data());
      }
    }
    const int width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
    auto k_values = random_numbers(rows * kv_width, 2), q_values = random_numbers(rows * width, 1);
    q = std::make_unique<Matrix>(q_values, DType::kF32, rows, width, 1);
    k = std::make_unique<Matrix>(k_values, DType::kF32, rows, kv_width, 2);
    v = std::make_unique<Matrix>(random_numbers(rows * kv_width, 3), DType::kF32, rows, kv_width,
                                 3);
  }

  // Sequences that still have rows give up to `chunk` new ones to each call.
  void run(Kernels& kernels, CpuDevice& device, int chunk, bool prompt, Matrix& out) {
    for (int at = 0;; at += chunk) {
      std::vector<AttentionSpan> spans;
      for (std::size_t s = 0; s < lengths_.size(); ++s)
        if (const int rows = std::min(chunk, lengths_[s] - at); rows > 0)
          spans.push_back({.first_row = first_[s] + at,
                           .rows = rows,
                           .first_position = at,
                           .prompt = prompt,
                           .pages = pages_[s]});
      if (spans.empty()) return;
      kernels.append_kv(format_, shape_.page_positions, spans, k->view(), v->view());
      kernels.attend(format_, shape_.page_positions, spans, shape_.heads, scale(), q->view(),
                     out.view());
      device.compute().record().wait();
    }
  }

  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_dim)); }
  const std::vector<std::vector<std::byte>>& memory() const { return memory_; }
  const KvFormat& format() const { return format_; }

  std::unique_ptr<Matrix> q, k, v;

 private:
  const Shape shape_;
  const KvFormat format_;
  const std::vector<int> lengths_;
  std::vector<std::int64_t> first_;
  std::vector<std::vector<std::byte*>> pages_;
  std::vector<std::vector<std::byte>> memory_;
};

using AttentionTest = KernelsTest;

class AttentionReferenceTest : public AttentionTest {
 protected:
  // check(shape, got, want) of each shape, for prompts of four lengths or generated positions.
  template <typename Check>
  void for_every_shape(DType type, bool prompt, const Check& check) {
    constexpr std::int64_t kRows = 1 + 90 + 64 + 65;
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE("head dimension " + std::to_string(shape.head_dim));
      const std::vector<int> lengths{1, 90, 64, 65};
      const std::int64_t width = shape.heads * shape.head_dim;
      Sequences slow_side(shape, lengths);
      Matrix want(DType::kF32, kRows, width);
      slow_side.run(reference(), device(), 90, true, want);
      for_every_isa([&] {
        Sequences fast_side(shape, lengths);
        Matrix got(type, kRows, width, 1);
        fast_side.run(fast(), device(), prompt ? 90 : 1, prompt, got);
        ASSERT_TRUE(fast_side.memory() == slow_side.memory()) << "records differ";
        check(got, want, kRows, width);
        EXPECT_TRUE(got.padding_is_untouched());
      });
    }
  }
};

TEST_F(AttentionReferenceTest, AgreesInEveryEncodingShapeAndIsa) {
  make(DType::kF32);
  for (const auto& [type, prompt] :
       {std::pair{DType::kF32, true}, {DType::kBF16, true}, {DType::kF32, false}})
    for_every_shape(
        type, prompt,
        [type = type](const Matrix& got, const Matrix& want, std::int64_t rows, std::int64_t cols) {
          // Scores |s| < 8 from up to 128 products, each rounded to 2^-24: weights are off by some
          // 2^-18 of themselves, and so is their mean of values |v| < 5.
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < cols; ++c)
              ASSERT_NEAR(got.at(r, c), want.at(r, c),
                          0x1p-16f + rounding_of(type) * std::fabs(want.at(r, c)))
                  << "row " << r << ", column " << c;
        });
}

TEST_F(AttentionReferenceTest, AgreesWithPromptsInBf16AsFarAsThatRounds) {
  make(DType::kBF16);
  for (const DType type : {DType::kF32, DType::kBF16})
    for_every_shape(
        type, true,
        [](const Matrix& got, const Matrix& want, std::int64_t rows, std::int64_t cols) {
          // Scores of unit variance whose factors are each rounded by 2^-9 of themselves are off by
          // some 2^-9, and so are weights; hardly ever by eight times that. Values are |v| < 5.
          double sum = 0;
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < cols; ++c) {
              const float error = std::fabs(got.at(r, c) - want.at(r, c));
              ASSERT_LE(error, 5 * 0x1p-6f) << "row " << r << ", column " << c;
              sum += error;
            }
          EXPECT_LE(sum / static_cast<double>(rows * cols), 0x1p-9);
        });
}

class AttentionBitsTest : public AttentionTest, public testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(InEveryComputeType, AttentionBitsTest,
                         testing::Values(DType::kF32, DType::kBF16));

TEST_P(AttentionBitsTest, StayTheSameHoweverAPromptIsCutIntoChunks) {
  make(GetParam());
  for (const Shape& shape : kShapes) {
    const std::vector<int> lengths{200, 1, 67};
    Sequences whole(shape, lengths);
    Matrix want(DType::kF32, 268, shape.heads * shape.head_dim);
    whole.run(fast(), device(), 200, true, want);
    for (const int chunk : {1, 7, 64, 199}) {
      Sequences cut(shape, lengths);
      Matrix got(DType::kF32, 268, shape.heads * shape.head_dim);
      cut.run(fast(), device(), chunk, true, got);
      ASSERT_TRUE(got.bits(0, 268) == want.bits(0, 268))
          << "chunks of " << chunk << ", head dimension " << shape.head_dim;
      ASSERT_TRUE(cut.memory() == whole.memory());
    }
  }
}

TEST_P(AttentionBitsTest, SeeNothingOfLaterPositionsNotEvenOfNumbersThatAreNone) {
  make(GetParam());
  const Shape shape{Encoding::kF32, 2, 1, 33, 64, 8};
  Sequences clean(shape, {70}), poisoned(shape, {70});
  for (int c = 0; c < 33; ++c) {
    poisoned.k->set(69, c, NAN);
    poisoned.v->set(69, c, INFINITY);
  }
  Matrix want(DType::kF32, 70, 66), got(DType::kF32, 70, 66);
  clean.run(fast(), device(), 70, true, want);
  poisoned.run(fast(), device(), 70, true, got);
  EXPECT_TRUE(got.bits(0, 69) == want.bits(0, 69));
}

TEST_F(AttentionTest, WeighsEqualKeysEquallyAndALargeOneAlone) {
  make(DType::kF32);
  const Shape shape{Encoding::kF32, 1, 1, 4, 64, 3};
  Sequences equal(shape, {3});
  for (std::int64_t r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) {
      equal.k->set(r, c, 0.5f);
      equal.v->set(r, c, static_cast<float>(r));
    }
  Matrix out(DType::kF32, 3, 4);
  equal.run(fast(), device(), 3, true, out);
  EXPECT_FLOAT_EQ(out.at(1, 0), 0.5f);
  EXPECT_FLOAT_EQ(out.at(2, 3), 1.0f);
  for (int c = 0; c < 4; ++c) {  // a score of 20000 against 1: exp would overflow without care
    equal.k->set(1, c, 10000.0f);
    equal.q->set(2, c, 1.0f);
  }
  equal.run(fast(), device(), 3, true, out);
  EXPECT_FLOAT_EQ(out.at(2, 0), 1.0f);
}

TEST_F(AttentionTest, RefusesHeadsThatTheWorkspaceWasNotPlannedFor) {
  make(DType::kF32, 2, 16);
  const Shape shape{Encoding::kF32, 1024, 1, 512, 64, 4};
  Sequences big(shape, {1});
  Matrix out(DType::kF32, 1, 1024 * 512);
  EXPECT_THROW(big.run(fast(), device(), 1, true, out), ConfigError);
  finish();  // what was appended before
  const Shape q8{Encoding::kQ8, 1, 1, 4, 64, 4};
  Sequences wrong(q8, {1});
  EXPECT_THROW(wrong.run(fast(), device(), 1, true, out), ConfigError);
}

}  // namespace
}  // namespace barge
