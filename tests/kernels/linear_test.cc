#include <gmock/gmock.h>

#include "core/errors.h"
#include "kernels/cpu/linear.h"
#include "tests/kernels/fixture.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

using LinearTest = KernelsTest;

struct Case {
  WeightFormat format;
  std::int64_t rows, inputs, outputs, panel_rows;
};

// Each format, on sizes that are multiples of nothing, and panels that end inside a tile.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const WeightFormat format :
       {WeightFormat{Encoding::kF32}, WeightFormat{Encoding::kF16}, WeightFormat{Encoding::kBF16},
        WeightFormat{Encoding::kQ8, 32}, WeightFormat{Encoding::kQ4, 32},
        WeightFormat{Encoding::kQ4, 64}, WeightFormat{Encoding::kQ4, 128},
        WeightFormat{Encoding::kQ4, 20}, WeightFormat{Encoding::kQ4, 64, GroupAxis::kOutput},
        WeightFormat{Encoding::kQ8, 32, GroupAxis::kOutput}}) {
    all.push_back({format, 3, 33, 5, 2});
    all.push_back({format, 1, 1, 1, 1});
    all.push_back({format, 65, 576, 192, 64});
    all.push_back({format, 70, 111, 130, 37});
    all.push_back({format, 200, 64, 64, 100});
  }
  return all;
}

// Largest sum of |x| |w| of a row, for bounds.
float largest_sum(const Case& c) { return 1.3f * std::sqrt(2.0f) * static_cast<float>(c.inputs); }

void expect_close(const Case& c, DType compute, DType y_type, const Matrix& got,
                  const Matrix& want) {
  // Both sides multiply the same numbers exactly; the fast one sums in f32 (each of the inputs'
  // additions off by 2^-24 of a partial sum, at most sum |x||w|), and y is rounded on both sides.
  const float sum_error = static_cast<float>(c.inputs) * 0x1p-24f * largest_sum(c);
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t n = 0; n < c.outputs; ++n)
      ASSERT_NEAR(
          got.at(r, n), want.at(r, n),
          std::min(sum_error, 1e-3f) + 2 * rounding_of(y_type) * std::fabs(want.at(r, n)) + 1e-5f)
          << to_string(c.format) << " " << c.rows << " x " << c.inputs << " x " << c.outputs
          << " in " << name_of(compute) << " at " << r << ", " << n;
}

TEST_F(LinearTest, AgreesWithTheReferenceInEveryFormatAtEdgeSizes) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    make(compute);
    for (const Case& c : cases()) {
      const Weights w(c.format, c.outputs, c.inputs, c.panel_rows);
      Matrix x(random_numbers(c.rows * c.inputs, 4), compute, c.rows, c.inputs, 3);
      auto bias = random_numbers(c.outputs, 5);
      Matrix got(DType::kF32, c.rows, c.outputs, 2), want(DType::kF32, c.rows, c.outputs);
      fast().linear(x.view(), w.panels(), bias.data(), got.view(), Epilogue::kStore);
      reference().linear(x.view(), w.panels(), bias.data(), want.view(), Epilogue::kStore);
      finish();
      expect_close(c, compute, DType::kF32, got, want);
      EXPECT_TRUE(got.padding_is_untouched());
    }
  }
}

TEST_F(LinearTest, AddsToWhatIsThereAndStoresInTheComputeType) {
  const Case c{{Encoding::kQ4, 64}, 67, 129, 70, 33};
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    make(compute);
    const Weights w(c.format, c.outputs, c.inputs, c.panel_rows);
    Matrix x(random_numbers(c.rows * c.inputs, 4), compute, c.rows, c.inputs);
    const auto before = random_numbers(c.rows * c.outputs, 6);
    Matrix got(before, DType::kF32, c.rows, c.outputs),
        want(before, DType::kF32, c.rows, c.outputs);
    Matrix got_narrow(compute, c.rows, c.outputs), want_narrow(compute, c.rows, c.outputs);
    for (auto [table, y, narrow] :
         {std::tuple{&fast(), &got, &got_narrow}, std::tuple{&reference(), &want, &want_narrow}}) {
      table->linear(x.view(), w.panels(), nullptr, y->view(), Epilogue::kAdd);
      table->linear(x.view(), w.panels(), nullptr, narrow->view(), Epilogue::kStore);
    }
    finish();
    expect_close(c, compute, DType::kF32, got, want);
    expect_close(c, compute, compute, got_narrow, want_narrow);
  }
}

// The property that everything else rests on: a row's bits are its own.
TEST_F(LinearTest, GivesARowTheSameBitsInAnyCompanyAtAnyPlace) {
  constexpr std::int64_t kRows = 200, kInputs = 333, kOutputs = 70;
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    make(compute);
    const Weights w({Encoding::kQ4, 64}, kOutputs, kInputs, 40);
    Matrix x(random_numbers(kRows * kInputs, 4), compute, kRows, kInputs);
    Matrix all(DType::kF32, kRows, kOutputs);
    fast().linear(x.view(), w.panels(), nullptr, all.view(), Epilogue::kStore);
    finish();
    for (std::int64_t rows = 1; rows <= kRows; ++rows) {
      const std::int64_t first = (rows * 37) % (kRows - rows + 1);
      Matrix some(DType::kF32, rows, kOutputs);
      fast().linear(x.view().row_range(first, rows), w.panels(), nullptr, some.view(),
                    Epilogue::kStore);
      finish();
      ASSERT_TRUE(some.bits(0, rows) == all.bits(first, rows)) << rows << " rows from " << first;
    }
  }
}

TEST_F(LinearTest, GivesTheSameBitsWhateverTheThreadsPanelsAndStrides) {
  constexpr std::int64_t kRows = 130, kInputs = 576, kOutputs = 1600;
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    std::vector<std::byte> first;
    const auto values = random_numbers(kRows * kInputs, 4);
    for (const int threads : {1, 2, 5, 40})
      for (const std::int64_t panel_rows : {1600, 64, 50}) {
        make(compute, 1, 1, threads);
        const Weights w({Encoding::kQ4, 32}, kOutputs, kInputs, panel_rows);
        Matrix x(values, compute, kRows, kInputs, panel_rows == 64 ? 5 : 0);
        Matrix y(DType::kF32, kRows, kOutputs);
        fast().linear(x.view(), w.panels(), nullptr, y.view(), Epilogue::kStore);
        finish();
        if (first.empty()) first = y.bits(0, kRows);
        ASSERT_TRUE(y.bits(0, kRows) == first)
            << threads << " threads, " << panel_rows << " a panel";
      }
  }
}

TEST_F(LinearTest, MultipliesNothingByNothing) {
  make(DType::kF32);
  const Weights w({Encoding::kF32}, 4, 8, 4);
  Matrix x(DType::kF32, 0, 8), y(DType::kF32, 0, 4);
  fast().linear(x.view(), w.panels(), nullptr, y.view(), Epilogue::kStore);
  finish();
}

TEST_F(LinearTest, NamesTheWidthItWasPlannedForWhenAProductIsWider) {
  make(DType::kF32);
  const Weights w({Encoding::kF32}, 4, kMaxInputs + 1, 4);
  Matrix x(DType::kF32, 1, kMaxInputs + 1), y(DType::kF32, 1, 4);
  EXPECT_THAT([&] { fast().linear(x.view(), w.panels(), nullptr, y.view(), Epilogue::kStore); },
              ThrowsMessage<ConfigError>(HasSubstr("planned for 700")));
}

TEST_F(LinearTest, TakesExactlyTheWorkspaceThatItSaysItTakes) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    make(compute);
    const KernelLimits limits{compute, 512, kMaxInputs, 12, 128};
    EXPECT_EQ(budgets_.host.by_tag().at("workspace"),
              round_up(cpu_workspace_bytes(limits, 3), kSectorBytes));
  }
}

TEST_F(LinearTest, RefusesFloat16AndSaysWhatTheCpuHas) {
  CpuDevice cpu({.threads = 1}, budgets_);
  EXPECT_THAT([&] { make_cpu_kernels(cpu, {.compute = DType::kF16, .max_inputs = 8}); },
              ThrowsMessage<ConfigError>(HasSubstr("float32 or bfloat16")));
}

TEST(ProductTest, TakesEveryNumberOfInputsWithinThePlannedScratch) {
  for (const DType compute : {DType::kF32, DType::kBF16})
    for (const std::int64_t inputs : {1, 2, 15, 17, 33, 63, 65, 576, 1536, 2047}) {
      const auto product = make_product(inputs, compute, 1);
      const KernelLimits limits{.compute = compute, .max_inputs = inputs};
      EXPECT_LE(product->layout().bytes + product->scratch_bytes(),
                Linear::workspace_bytes(limits));
      EXPECT_EQ(product->layout().inputs, inputs);
    }
}

}  // namespace
}  // namespace barge
