// Everything that works row by row: norms, rotary embedding, activations, lookups.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/kernels/every_isa.h"
#include "tests/kernels/fixture.h"

namespace barge {
namespace {

using RowwiseTest = KernelsTest;
using Activation = Kernels::Activation;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr std::int64_t kWidths[] = {1, 15, 16, 33, 64, 576, 1000};

// |got - want| <= error * max(1, |want|), plus the rounding of both to their type.
void expect_close(const Matrix& got, const Matrix& want, std::int64_t rows, std::int64_t cols,
                  DType type, float error) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      ASSERT_NEAR(got.at(r, c), want.at(r, c),
                  (error + 2 * rounding_of(type)) * std::max(1.0f, std::fabs(want.at(r, c))))
          << "at " << r << ", " << c << " of " << rows << " x " << cols << " in " << name_of(type);
}

TEST_F(RowwiseTest, NormsAgreeWithTheReferenceAtEveryWidthTypeAndIsa) {
  make(DType::kF32);
  for (const std::int64_t cols : kWidths)
    for (const DType type : kTypes) {
      constexpr std::int64_t kRows = 37;
      auto values = random_numbers(kRows * cols, 1);
      for (float& v : values) v += 3;  // a mean that must be taken off
      Matrix x(values, DType::kF32, kRows, cols, 3);
      const auto weight = random_numbers(cols, 2), bias = random_numbers(cols, 3);
      Matrix rms(type, kRows, cols, 1), rms_want(type, kRows, cols);
      Matrix layer(type, kRows, cols, 1), layer_want(type, kRows, cols);
      reference().rms_norm(x.view(), weight.data(), 1e-5f, rms_want.view());
      reference().layer_norm(x.view(), weight.data(), bias.data(), 1e-5f, layer_want.view());
      finish();
      // A sum of numbers near 3 that goes one by one where there are no vectors: each addition is
      // off by up to 2^-24 of it, and the mean is taken off numbers that are 1 apart. A row of
      // one number less its mean is rounding alone, and is divided by sqrt(eps).
      const float layer_error = 0x1p-18f + 3 * 0x1p-24f * static_cast<float>(cols);
      for_every_isa([&] {
        fast().rms_norm(x.view(), weight.data(), 1e-5f, rms.view());
        fast().layer_norm(x.view(), weight.data(), bias.data(), 1e-5f, layer.view());
        finish();
        expect_close(rms, rms_want, kRows, cols, type, 0x1p-18f);
        expect_close(layer, layer_want, kRows, cols, type, cols == 1 ? 1e-3f : layer_error);
      });
      EXPECT_TRUE(rms.padding_is_untouched() && layer.padding_is_untouched());
    }
}

TEST_F(RowwiseTest, ActivationsAgreeWithTheReferenceInEveryIsaAlsoFarOut) {
  make(DType::kF32);
  for (const std::int64_t cols : kWidths)
    for (const DType type : kTypes)
      for (const Activation activation :
           {Activation::kSilu, Activation::kRelu, Activation::kGeluTanh, Activation::kGeluErf}) {
        constexpr std::int64_t kRows = 5;
        auto values = random_numbers(kRows * cols, 1);
        for (float& v : values) v *= 3;
        values[0] = -200;  // exp overflows
        values.back() = 200;
        Matrix gate(values, type, kRows, cols),
            up(random_numbers(kRows * cols, 2), type, kRows, cols);
        Matrix got(type, kRows, cols, 2), want(type, kRows, cols);
        Matrix alone(type, kRows, cols), alone_want(type, kRows, cols);
        reference().activate(activation, gate.view(), up.view(), want.view());
        reference().activate(activation, gate.view(), {}, alone_want.view());
        finish();
        // exp is within 2 ulp of 2^-24, and a few operations follow.
        for_every_isa([&] {
          fast().activate(activation, gate.view(), up.view(), got.view());
          fast().activate(activation, gate.view(), {}, alone.view());
          finish();
          expect_close(got, want, kRows, cols, type, 0x1p-20f);
          expect_close(alone, alone_want, kRows, cols, type, 0x1p-20f);
        });
        EXPECT_TRUE(got.padding_is_untouched());
      }
}

TEST_F(RowwiseTest, MixedTypesOfAnActivationAreRead) {
  make(DType::kF32);
  Matrix gate(random_numbers(3 * 33, 1), DType::kF32, 3, 33);
  Matrix up(random_numbers(3 * 33, 2), DType::kBF16, 3, 33);
  Matrix got(DType::kBF16, 3, 33), want(DType::kBF16, 3, 33);
  fast().activate(Activation::kSilu, gate.view(), up.view(), got.view());
  reference().activate(Activation::kSilu, gate.view(), up.view(), want.view());
  finish();
  expect_close(got, want, 3, 33, DType::kBF16, 0x1p-20f);
}

TEST_F(RowwiseTest, RotatesEachHeadByItsRowsPositionAlsoFarFromZero) {
  make(DType::kF32);
  for (const int head_dim : {2, 10, 64, 80, 128}) {
    constexpr std::int64_t kRows = 9, kHeads = 3;
    const auto values = random_numbers(kRows * kHeads * head_dim, 1);
    Matrix got(values, DType::kF32, kRows, kHeads * head_dim, 1);
    Matrix want(values, DType::kF32, kRows, kHeads * head_dim);
    const std::vector<std::int32_t> positions{0, 1, 2, 77, 1000, 4095, 131071, 5, 5};
    std::vector<float> frequencies;
    for (int i = 0; i < head_dim / 2; ++i)
      frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / head_dim));
    fast().rope(got.view(), head_dim, positions, frequencies);
    reference().rope(want.view(), head_dim, positions, frequencies);
    finish();
    // Both take the same f32 angle: only sine, cosine and two products round.
    expect_close(got, want, kRows, kHeads * head_dim, DType::kF32, 0x1p-21f);
    EXPECT_TRUE(got.padding_is_untouched());
  }
}

TEST_F(RowwiseTest, DecodesRowsOfEveryEncodingExactlyAsTheCodecDoes) {
  make(DType::kF32);
  for (const WeightFormat format :
       {WeightFormat{Encoding::kF32}, WeightFormat{Encoding::kF16}, WeightFormat{Encoding::kBF16},
        WeightFormat{Encoding::kQ8, 32}, WeightFormat{Encoding::kQ4, 64},
        WeightFormat{Encoding::kQ4, 7}, WeightFormat{Encoding::kQ4, 4, GroupAxis::kOutput}})
    for (const std::int64_t cols : {1, 33, 64, 301}) {
      constexpr std::int64_t kRows = 6;
      const Weights w(format, kRows, cols, kRows);
      Matrix got(DType::kF32, kRows, cols, 1), want(DType::kF32, kRows, cols);
      fast().decode_rows(w.panels()[0], got.view(), Epilogue::kStore);
      reference().decode_rows(w.panels()[0], want.view(), Epilogue::kStore);
      finish();
      ASSERT_TRUE(got.bits(0, kRows) == want.bits(0, kRows)) << to_string(format) << " of " << cols;
      fast().decode_rows(w.panels()[0], got.view(), Epilogue::kAdd);
      reference().decode_rows(w.panels()[0], want.view(), Epilogue::kAdd);
      finish();
      ASSERT_TRUE(got.bits(0, kRows) == want.bits(0, kRows)) << to_string(format) << " of " << cols;
      EXPECT_TRUE(got.padding_is_untouched());
    }
}

TEST_F(RowwiseTest, GathersRowsInAnyOrderAndAgain) {
  make(DType::kF32);
  Matrix x(random_numbers(7 * 33, 1), DType::kF32, 7, 33, 2), y(DType::kF32, 4, 33, 1);
  const std::vector<std::int32_t> rows{6, 0, 6, 3};
  fast().gather_rows(x.view(), rows, y.view());
  finish();
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(y.bits(i, 1), x.bits(rows[i], 1));
  EXPECT_TRUE(y.padding_is_untouched());
}

TEST_F(RowwiseTest, RowsHaveTheSameBitsAloneAndInCompany) {
  make(DType::kF32);
  constexpr std::int64_t kRows = 500, kCols = 100;
  const auto weight = random_numbers(kCols, 2);
  const std::vector<float> frequencies(25, 0.3f);
  std::vector<std::int32_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), 0);
  const auto run = [&](std::int64_t first, std::int64_t rows) {
    const auto values = random_numbers(kRows * kCols, 1);
    Matrix x(values, DType::kF32, kRows, kCols), y(DType::kBF16, kRows, kCols);
    const MatrixView some = x.view().row_range(first, rows), out = y.view().row_range(first, rows);
    fast().rope(some, 50, std::span(positions).subspan(first, rows), frequencies);
    fast().activate(Activation::kSilu, some, some, some);
    fast().rms_norm(some, weight.data(), 1e-6f, out);
    finish();
    return y.bits(first, rows);
  };
  const auto all = run(0, kRows);
  for (const auto& [first, rows] : {std::pair{0, 1}, {499, 1}, {17, 100}, {163, 164}})
    EXPECT_EQ(run(first, rows), std::vector(all.begin() + first * kCols * 2,
                                            all.begin() + (first + rows) * kCols * 2));
}

}  // namespace
}  // namespace barge
