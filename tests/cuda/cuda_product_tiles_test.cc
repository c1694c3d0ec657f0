// Products where cuBLAS is as bad as it can be: the emulation's can be made so.
#ifdef BARGE_CUDA_EMULATED
#include <gmock/gmock.h>

#include <algorithm>

#include "emulation.h"
#include "kernels/cuda/product.h"
#include "tests/cuda/table_fixture.h"

namespace barge::cuda {
namespace {

using testing::HasSubstr;

// Sums in an order that depends on the number of rows.
class TiledProductTest : public CudaTableTest {
 protected:
  TiledProductTest() { cuda_emulation::make_products_depend_on_rows(true); }
  ~TiledProductTest() override { cuda_emulation::make_products_depend_on_rows(false); }
};

TEST_F(TiledProductTest, TakesATileOfRowsWhereBitsWouldDependOnTheirNumber) {
  constexpr std::int64_t kRows = 300, kInputs = 192, kOutputs = 70;
  const Weights w({Encoding::kQ4, 64}, kOutputs, kInputs, 40);
  const DevicePanels w_there(w.panels());
  const Buffer workspace =
      device().allocate(Tier::kDevice, Product::workspace_bytes(limits(DType::kF16)), "workspace");
  Product product(device(), limits(DType::kF16), {workspace.data(), workspace.bytes()});
  Matrix x(random_numbers(kRows * kInputs, 4), DType::kF16, kRows, kInputs);
  const DeviceMatrix x_there(x);
  const auto before = random_numbers(kRows * kOutputs, 6);
  std::vector<std::byte> all;
  for (const std::int64_t rows : {300, 1, 2, 127, 128, 129, 255, 256, 257}) {
    Matrix y(before, DType::kF32, rows, kOutputs);
    DeviceMatrix y_there(y);
    device().compute().submit([&](cudaStream_t stream) {
      product.run(stream, x_there.view().row_range(0, rows), w_there.panels(), nullptr,
                  y_there.view(), Epilogue::kAdd);
    });
    finish();
    y_there.fetch();
    if (all.empty()) all = y.bits(0, rows);
    const auto bits = y.bits(0, rows);
    ASSERT_TRUE(std::equal(bits.begin(), bits.end(), all.begin())) << rows << " rows";
  }
  const Product::Report report = product.report();
  EXPECT_EQ(report.shapes, 1u);
  ASSERT_EQ(report.tiled.size(), 1u);
  EXPECT_THAT(report.tiled.front(), HasSubstr("192 inputs in float16 to float32"));
}

TEST_F(TiledProductTest, IsAsExactInTiles) {
  constexpr std::int64_t kRows = 129, kInputs = 65, kOutputs = 33;
  make(DType::kF16);
  const Weights w({Encoding::kQ8, 32}, kOutputs, kInputs, kOutputs);
  const DevicePanels w_there(w.panels());
  Matrix x(random_numbers(kRows * kInputs, 4), DType::kF16, kRows, kInputs);
  const DeviceMatrix x_there(x);
  const auto before = random_numbers(kRows * kOutputs, 6), bias = random_numbers(kOutputs, 5);
  const OnDevice<float> bias_there(bias);
  Matrix got(before, DType::kF32, kRows, kOutputs, 5), want(before, DType::kF32, kRows, kOutputs);
  DeviceMatrix got_there(got);
  table().linear(x_there.view(), w_there.panels(), bias_there.data(), got_there.view(),
                 Epilogue::kAdd);
  reference().linear(x.view(), w.panels(), bias.data(), want.view(), Epilogue::kAdd);
  finish();
  got_there.fetch();
  expect_close(got, want, kRows, kOutputs, DType::kF32, product_error(kInputs, DType::kF16));
  EXPECT_TRUE(got.padding_is_untouched());
}
}  // namespace
}  // namespace barge::cuda
#endif
