// RMS norm and layer norm of a GPU against the plain ones.
#include "tests/cuda/fixture.h"

namespace barge::cuda {
namespace {

using NormsTest = CudaTest;

// One warp with and without a rest, several, several items a thread, four of them (above 16384).
constexpr std::int64_t kWidths[] = {1, 7, 8, 31, 32, 33, 127, 128, 129, 512, 1000, 4096, 20480};

struct Norms {
  Norms(std::int64_t rows, std::int64_t cols, DType type, std::int64_t padding)
      : rms(type, rows, cols, padding), layer(type, rows, cols, padding) {}
  Matrix rms, layer;
};

// Both norms of x on the GPU.
void run(cudaStream_t stream, Matrix& x, const std::vector<float>& weight,
         const std::vector<float>& bias, Norms& to) {
  DeviceMatrix from(x), rms(to.rms), layer(to.layer);
  const OnDevice<float> w(weight), b(bias);
  rms_norm(stream, from.view(), w.data(), 1e-5f, rms.view());
  layer_norm(stream, from.view(), w.data(), b.data(), 1e-5f, layer.view());
  rms.fetch();
  layer.fetch();
}

std::vector<float> numbers_near_3(std::int64_t count) {
  auto values = random_numbers(count, 1);
  for (float& v : values) v += 3;  // a mean that must be taken off
  return values;
}

TEST_F(NormsTest, AgreeWithTheReferenceAtEveryWidthTypeAndStride) {
  for (const std::int64_t cols : kWidths)
    for (const DType type : kTypes)
      for (const std::int64_t padding : {0, 3, 8}) {  // 3: rows begin at odd places
        const std::int64_t rows = cols > 1000 ? 2 : 5;
        Matrix x(numbers_near_3(rows * cols), DType::kF32, rows, cols, padding);
        const auto weight = random_numbers(cols, 2), bias = random_numbers(cols, 3);
        Norms got(rows, cols, type, padding), want(rows, cols, type, 0);
        run(stream(), x, weight, bias, got);
        reference().rms_norm(x.view(), weight.data(), 1e-5f, want.rms.view());
        reference().layer_norm(x.view(), weight.data(), bias.data(), 1e-5f, want.layer.view());
        finish_reference();
        // A thread adds up at most 32 numbers, then 10 steps add pairs; numbers are near 3, and
        // the error of the mean, 42 * 3 * 2^-24, is one of numbers that are 1 apart, times a
        // weight of at most 5. A row of one number less its mean is rounding alone, and is divided
        // by sqrt(eps); so nearly are a few numbers.
        expect_close(got.rms, want.rms, rows, cols, type, 0x1p-18f);
        expect_close(got.layer, want.layer, rows, cols, type, cols < 8 ? 1e-3f : 0x1p-15f);
        EXPECT_TRUE(got.rms.padding_is_untouched() && got.layer.padding_is_untouched());
      }
}

TEST_F(NormsTest, ARowOfEqualNumbersHasNoVarianceButEps) {
  Matrix x(std::vector<float>(2 * 129, 4.0f), DType::kF32, 2, 129);
  Norms got(2, 129, DType::kF32, 0);
  run(stream(), x, std::vector<float>(129, 1.0f), std::vector<float>(129, 0.5f), got);
  for (std::int64_t c = 0; c < 129; ++c) {
    // The mean is within 2 ulp of 4, and what is left is divided by sqrt(1e-5).
    ASSERT_NEAR(got.layer.at(1, c), 0.5f, 4 * 0x1p-22f / 0x1p-9f);
    ASSERT_NEAR(got.rms.at(1, c), 1.0f, 1e-5f);
  }
}

TEST_F(NormsTest, ARowHasTheSameBitsAloneInCompanyAndAtAnyAddress) {
  for (const std::int64_t cols : {33, 129, 1000}) {
    constexpr std::int64_t kRows = 70;
    const auto values = numbers_near_3(kRows * cols);
    const auto weight = random_numbers(cols, 2), bias = random_numbers(cols, 3);
    Matrix all(values, DType::kF32, kRows, cols);
    Norms together(kRows, cols, DType::kF32, 0);
    run(stream(), all, weight, bias, together);
    for (const std::int64_t row : {0, 1, 63, 69})
      for (const std::int64_t padding : {0, 1, 24}) {
        const auto first = values.begin() + row * cols;
        Matrix x(std::vector(first, first + cols), DType::kF32, 1, cols, padding);
        Norms alone(1, cols, DType::kF32, padding);
        run(stream(), x, weight, bias, alone);
        EXPECT_EQ(alone.rms.bits(0, 1), together.rms.bits(row, 1)) << row << " of " << cols;
        EXPECT_EQ(alone.layer.bits(0, 1), together.layer.bits(row, 1)) << row << " of " << cols;
      }
  }
}

TEST_F(NormsTest, NothingIsDoneForNoRows) {
  rms_norm(stream(), {nullptr, DType::kF32, 0, 64, 64}, nullptr, 1e-5f,
           {nullptr, DType::kF16, 0, 64, 64});
  layer_norm(stream(), {nullptr, DType::kF32, 0, 64, 64}, nullptr, nullptr, 1e-5f,
             {nullptr, DType::kF16, 0, 64, 64});
  finish();
}

TEST_F(NormsTest, RefusesARowThatItsThreadsCannotHold) {
  const MatrixView x{nullptr, DType::kF32, 1, 40000, 40000};
  EXPECT_THROW(rms_norm(stream(), x, nullptr, 1e-5f, x), DeviceError);
}

}  // namespace
}  // namespace barge::cuda
