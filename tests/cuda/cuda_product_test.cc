#include "kernels/cuda/product.h"

#include <algorithm>

#include "tests/cuda/table_fixture.h"

namespace barge::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  WeightFormat format;
  std::int64_t rows, inputs, outputs, panel_rows;
};

// Each format, on sizes that are multiples of nothing and on one that cuBLAS likes.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const WeightFormat format :
       {WeightFormat{Encoding::kF32}, WeightFormat{Encoding::kF16}, WeightFormat{Encoding::kBF16},
        WeightFormat{Encoding::kQ8, 32}, WeightFormat{Encoding::kQ4, 64},
        WeightFormat{Encoding::kQ4, 32, GroupAxis::kOutput}}) {
    const bool by_output = format.axis == GroupAxis::kOutput;
    all.push_back({format, 3, 33, 69, by_output ? 32 : 2});
    all.push_back({format, 1, 1, 1, 1});
    all.push_back({format, 65, 576, 192, 64});
  }
  return all;
}

class CudaProductTest : public CudaTableTest {
 protected:
  // y[:, first_panel's outputs...] = x W^T, the panels spread over calls of `at_once`.
  void multiply(const MatrixView& x, std::span<const WeightPanel> panels, const float* bias,
                const MatrixView& y, std::size_t at_once) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < panels.size(); i += at_once) {
      const auto some = panels.subspan(i, std::min(at_once, panels.size() - i));
      std::int64_t outputs = 0;
      for (const WeightPanel& panel : some) outputs += panel.layout.rows;
      table().linear(x, some, bias == nullptr ? nullptr : bias + first, y.columns(first, outputs),
                     Epilogue::kStore);
      first += outputs;
    }
  }
};

TEST_F(CudaProductTest, AgreesWithTheReferenceInEveryFormatAtEdgeSizes) {
  for (const DType compute : kTypes) {
    if (!multiplies(compute)) continue;
    make(compute);
    for (const Case& c : cases()) {
      const Weights w(c.format, c.outputs, c.inputs, c.panel_rows);
      const DevicePanels w_there(w.panels());
      Matrix x(random_numbers(c.rows * c.inputs, 4), compute, c.rows, c.inputs, 3);
      const auto bias = random_numbers(c.outputs, 5);
      const OnDevice<float> bias_there(bias);
      Matrix got(DType::kF32, c.rows, c.outputs, 2), want(DType::kF32, c.rows, c.outputs);
      const DeviceMatrix x_there(x);
      DeviceMatrix got_there(got);
      table().linear(x_there.view(), w_there.panels(), bias_there.data(), got_there.view(),
                     Epilogue::kStore);
      reference().linear(x.view(), w.panels(), bias.data(), want.view(), Epilogue::kStore);
      finish();
      got_there.fetch();
      SCOPED_TRACE(concat(to_string(c.format), " in ", name_of(compute)));
      expect_close(got, want, c.rows, c.outputs, DType::kF32, product_error(c.inputs, compute));
      EXPECT_TRUE(got.padding_is_untouched());
    }
  }
}

TEST_F(CudaProductTest, AddsToWhatIsThereAndStoresInTheComputeTypeWithAndWithoutBias) {
  constexpr std::int64_t kRows = 67, kInputs = 128, kOutputs = 70;
  for (const DType compute : kTypes)
    for (const bool with_bias : {false, true}) {
      if (!multiplies(compute)) continue;
      make(compute);
      const Weights w({Encoding::kQ4, 64}, kOutputs, kInputs, 33);
      const DevicePanels w_there(w.panels());
      Matrix x(random_numbers(kRows * kInputs, 4), compute, kRows, kInputs);
      const DeviceMatrix x_there(x);
      const auto numbers = random_numbers(kOutputs, 5);
      const OnDevice<float> numbers_there(numbers);
      const float* const bias = with_bias ? numbers.data() : nullptr;
      const float* const bias_there = with_bias ? numbers_there.data() : nullptr;
      const auto before = random_numbers(kRows * kOutputs, 6);
      Matrix sum(before, DType::kF32, kRows, kOutputs), narrow(compute, kRows, kOutputs, 1);
      Matrix want_sum(before, DType::kF32, kRows, kOutputs), want_narrow(compute, kRows, kOutputs);
      DeviceMatrix sum_there(sum), narrow_there(narrow);
      table().linear(x_there.view(), w_there.panels(), bias_there, sum_there.view(),
                     Epilogue::kAdd);
      table().linear(x_there.view(), w_there.panels(), bias_there, narrow_there.view(),
                     Epilogue::kStore);
      reference().linear(x.view(), w.panels(), bias, want_sum.view(), Epilogue::kAdd);
      reference().linear(x.view(), w.panels(), bias, want_narrow.view(), Epilogue::kStore);
      finish();
      sum_there.fetch();
      narrow_there.fetch();
      SCOPED_TRACE(concat(name_of(compute), with_bias ? " with bias" : ""));
      const float error = product_error(kInputs, compute);
      expect_close(sum, want_sum, kRows, kOutputs, DType::kF32, error);
      // The bias is rounded to y's type before it is added: |bias| < 4.
      expect_close(narrow, want_narrow, kRows, kOutputs, compute,
                   error + (with_bias ? 4 * rounding_of(compute) : 0));
      EXPECT_TRUE(narrow.padding_is_untouched());
    }
}

// The property that everything else rests on: a row's bits are its own.
TEST_F(CudaProductTest, GivesARowTheSameBitsInAnyCompanyAtAnyPlace) {
  constexpr std::int64_t kRows = 300, kInputs = 192, kOutputs = 70;
  for (const DType compute : kTypes)
    for (const std::int64_t padding : {0, 3}) {
      if (!multiplies(compute)) continue;
      make(compute);
      const Weights w({Encoding::kQ4, 64}, kOutputs, kInputs, 40);
      const DevicePanels w_there(w.panels());
      Matrix x(random_numbers(kRows * kInputs, 4), compute, kRows, kInputs, padding);
      const DeviceMatrix x_there(x);
      Matrix all(DType::kF32, kRows, kOutputs);
      DeviceMatrix all_there(all);
      table().linear(x_there.view(), w_there.panels(), nullptr, all_there.view(), Epilogue::kStore);
      finish();
      all_there.fetch();
      for (const std::int64_t rows : {1, 2, 15, 16, 17, 64, 127, 128, 129, 200, 256, 299}) {
        const std::int64_t first = (rows * 37) % (kRows - rows + 1);
        Matrix some(DType::kF32, rows, kOutputs);
        DeviceMatrix some_there(some);
        table().linear(x_there.view().row_range(first, rows), w_there.panels(), nullptr,
                       some_there.view(), Epilogue::kStore);
        finish();
        some_there.fetch();
        ASSERT_TRUE(some.bits(0, rows) == all.bits(first, rows))
            << rows << " rows from " << first << " in " << name_of(compute);
      }
    }
}

TEST_F(CudaProductTest, GivesTheSameBitsHoweverPanelsLieAndAreSpreadOverCalls) {
  constexpr std::int64_t kRows = 37, kInputs = 96, kOutputs = 210, kPanelRows = 48;
  for (const DType compute : kTypes)
    for (const Encoding encoding :
         {Encoding::kQ4, Encoding::kF16, Encoding::kBF16, Encoding::kF32}) {
      if (!multiplies(compute)) continue;
      make(compute);
      const Weights w({encoding, 32}, kOutputs, kInputs, kPanelRows);
      Matrix x(random_numbers(kRows * kInputs, 4), compute, kRows, kInputs);
      const DeviceMatrix x_there(x);
      const OnDevice<float> bias(random_numbers(kOutputs, 5));
      std::vector<std::byte> first;
      for (const std::size_t spacing : {64, 4096})
        for (const std::size_t at_once : {1, 2, 3, 5}) {
          const DevicePanels w_there(w.panels(), spacing);
          Matrix y(DType::kF32, kRows, kOutputs);
          DeviceMatrix y_there(y);
          multiply(x_there.view(), w_there.panels(), bias.data(), y_there.view(), at_once);
          finish();
          y_there.fetch();
          if (first.empty()) first = y.bits(0, kRows);
          ASSERT_TRUE(y.bits(0, kRows) == first) << at_once << " panels a call, " << spacing
                                                 << " bytes apart, in " << name_of(compute);
        }
    }
}

TEST_F(CudaProductTest, FindsPanelsInAnyOrderOfTheirAddresses) {
  constexpr std::int64_t kRows = 3, kInputs = 64, kOutputs = 80, kPanelRows = 16;
  make(DType::kF16);
  const Weights w({Encoding::kQ4, 32}, kOutputs, kInputs, kPanelRows);
  std::vector<WeightPanel> stored, panels(5);
  constexpr std::size_t kPlaces[]{1, 2, 4, 0,
                                  3};  // equally far apart at first, then not, then back
  for (const std::size_t panel : {3, 0, 1, 4, 2}) stored.push_back(w.panels()[panel]);
  const DevicePanels there(stored);
  for (std::size_t i = 0; i < 5; ++i) panels[i] = there.panels()[kPlaces[i]];
  Matrix x(random_numbers(kRows * kInputs, 4), DType::kF16, kRows, kInputs);
  const DeviceMatrix x_there(x);
  Matrix got(DType::kF32, kRows, kOutputs), want(DType::kF32, kRows, kOutputs);
  DeviceMatrix got_there(got);
  table().linear(x_there.view(), panels, nullptr, got_there.view(), Epilogue::kStore);
  reference().linear(x.view(), w.panels(), nullptr, want.view(), Epilogue::kStore);
  finish();
  got_there.fetch();
  expect_close(got, want, kRows, kOutputs, DType::kF32, product_error(kInputs, DType::kF16));
}

TEST_F(CudaProductTest, HasOneAlgorithmAShapeAndNeedsNoTiles) {
  constexpr std::int64_t kRows = 150, kInputs = 96, kOutputs = 99, kPanelRows = 33;
  const Weights w({Encoding::kQ4, 32}, kOutputs, kInputs, kPanelRows);
  const DevicePanels w_there(w.panels());
  const Buffer workspace =
      device().allocate(Tier::kDevice, Product::workspace_bytes(limits(DType::kF16)), "workspace");
  Product product(device(), limits(DType::kF16), {workspace.data(), workspace.bytes()});
  Matrix x(random_numbers(kRows * kInputs, 4), DType::kF16, kRows, kInputs);
  Matrix y(DType::kF32, kRows, kOutputs, 1);  // rows at multiples of 16 bytes, panels not
  const DeviceMatrix x_there(x), y_there(y);
  device().compute().submit([&](cudaStream_t stream) {
    for (const std::int64_t rows : {1, 150, 20})
      for (std::size_t panel = 0; panel < 3; ++panel)
        product.run(stream, x_there.view().row_range(0, rows), w_there.panels().subspan(panel),
                    nullptr,
                    y_there.view().row_range(0, rows).columns(
                        static_cast<std::int64_t>(panel) * kPanelRows, kOutputs),
                    Epilogue::kStore);
  });
  finish();
  EXPECT_EQ(product.report().shapes, 1u);
  EXPECT_THAT(product.report().tiled, testing::IsEmpty());
}

TEST_F(CudaProductTest, MultipliesMoreOutputsThanOneProductHas) {
  constexpr std::int64_t kRows = 2, kInputs = 8, kOutputs = 8192 * 2 + 3;
  make(DType::kF32);
  const Weights w({Encoding::kF32}, kOutputs, kInputs, kOutputs);
  const DevicePanels w_there(w.panels());
  Matrix x(random_numbers(kRows * kInputs, 4), DType::kF32, kRows, kInputs);
  const DeviceMatrix x_there(x);
  Matrix got(DType::kF32, kRows, kOutputs), want(DType::kF32, kRows, kOutputs);
  DeviceMatrix got_there(got);
  table().linear(x_there.view(), w_there.panels(), nullptr, got_there.view(), Epilogue::kStore);
  reference().linear(x.view(), w.panels(), nullptr, want.view(), Epilogue::kStore);
  finish();
  got_there.fetch();
  expect_close(got, want, kRows, kOutputs, DType::kF32, product_error(kInputs, DType::kF32));
}

TEST_F(CudaProductTest, MultipliesNothingByNothing) {
  make(DType::kF32);
  const Weights w({Encoding::kF32}, 4, 8, 4);
  table().linear({nullptr, DType::kF32, 0, 8, 8}, w.panels(), nullptr,
                 {nullptr, DType::kF32, 0, 4, 4}, Epilogue::kStore);
  finish();
}

TEST_F(CudaProductTest, NamesTheWidthItWasPlannedForWhenAProductIsWider) {
  make(DType::kF32);
  const MatrixView x{nullptr, DType::kF32, 1, kMaxInputs + 1, kMaxInputs + 1};
  EXPECT_THAT([&] { table().linear(x, {}, nullptr, {}, Epilogue::kStore); },
              ThrowsMessage<ConfigError>(HasSubstr("planned for 700")));
}

TEST_F(CudaProductTest, NamesTheSizeOfAPanelThatIsTooLargeToBeDecoded) {
  make(DType::kF32);
  const WeightPanel panel{nullptr, panel_layout({Encoding::kQ8, 32}, 16385, 512)};
  const Matrix x(DType::kF32, 1, 512);
  table().linear({nullptr, DType::kF32, 1, 512, 512}, {&panel, 1}, nullptr,
                 {nullptr, DType::kF32, 1, 16385, 16385}, Epilogue::kStore);
  EXPECT_THAT([&] { finish(); }, ThrowsMessage<ConfigError>(
                                     AllOf(HasSubstr("16385 x 512"), HasSubstr("has 32.0 MiB"))));
}

TEST_F(CudaProductTest, TakesExactlyTheWorkspaceThatItSaysItTakes) {
  for (const DType compute : {DType::kF32, DType::kF16}) {
    make(compute);
    EXPECT_EQ(budgets_.device.by_tag().at("workspace"),
              cuda_workspace_bytes(limits(compute)).device);
  }
}

}  // namespace
}  // namespace barge::cuda
