// Rotary embedding, activations, lookups of rows and biases of a GPU against the plain ones.
#include "tests/cuda/fixture.h"

namespace barge::cuda {
namespace {

using ElementwiseTest = CudaTest;
using Activation = Kernels::Activation;

constexpr std::int64_t kWidths[] = {1, 7, 8, 31, 33, 128, 257, 1000, 2056};
constexpr Activation kActivations[] = {Activation::kSilu, Activation::kRelu, Activation::kGeluTanh,
                                       Activation::kGeluErf};

TEST_F(ElementwiseTest, ActivationsAgreeWithTheReferenceInEveryTypeAlsoFarOut) {
  for (const std::int64_t cols : kWidths)
    for (const DType type : kTypes)
      for (const Activation activation : kActivations) {
        constexpr std::int64_t kRows = 5;
        auto values = random_numbers(kRows * cols, 1);
        for (float& v : values) v *= 3;
        values[0] = -200;  // exp overflows
        values.back() = 200;
        Matrix gate(values, type, kRows, cols, 8),
            up(random_numbers(kRows * cols, 2), type, kRows, cols);
        Matrix got(type, kRows, cols, 2), want(type, kRows, cols);
        Matrix alone(type, kRows, cols), alone_want(type, kRows, cols);
        {
          DeviceMatrix g(gate), u(up), y(got), a(alone);
          activate(stream(), activation, g.view(), u.view(), y.view());
          activate(stream(), activation, g.view(), {}, a.view());
          y.fetch();
          a.fetch();
        }
        reference().activate(activation, gate.view(), up.view(), want.view());
        reference().activate(activation, gate.view(), {}, alone_want.view());
        finish_reference();
        // tanh and erf are within 2 ulp of 2^-24 here, 1 there, also near -1, where 1 is added;
        // x / 2 and up, which follow, are below 16 together where the sum isn't 0 or near 2.
        expect_close(got, want, kRows, cols, type, 0x1p-18f);
        expect_close(alone, alone_want, kRows, cols, type, 0x1p-18f);
        EXPECT_TRUE(got.padding_is_untouched());
      }
}

TEST_F(ElementwiseTest, AnActivationReadsMixedTypesAndMayWriteOverItsInput) {
  for (const std::int64_t cols : {33, 264}) {
    Matrix gate(random_numbers(3 * cols, 1), DType::kF32, 3, cols);
    Matrix up(random_numbers(3 * cols, 2), DType::kBF16, 3, cols);
    Matrix got(DType::kF16, 3, cols), want(DType::kF16, 3, cols), over_want(DType::kF32, 3, cols);
    reference().activate(Activation::kSilu, gate.view(), up.view(), want.view());
    reference().activate(Activation::kSilu, gate.view(), up.view(), over_want.view());
    finish_reference();
    DeviceMatrix g(gate), u(up), y(got);
    activate(stream(), Activation::kSilu, g.view(), u.view(), y.view());
    activate(stream(), Activation::kSilu, g.view(), u.view(), g.view());
    y.fetch();
    g.fetch();
    expect_close(got, want, 3, cols, DType::kF16, 0x1p-20f);
    expect_close(gate, over_want, 3, cols, DType::kF32, 0x1p-20f);
  }
}

TEST_F(ElementwiseTest, RotatesEachHeadByItsRowsPositionAlsoFarFromZero) {
  for (const int head_dim : {2, 10, 64, 80, 128})
    for (const int heads : {1, 4, 5, 9}) {
      constexpr std::int64_t kRows = 9;
      const std::int64_t cols = std::int64_t{heads} * head_dim;
      const auto values = random_numbers(kRows * cols, 1);
      Matrix got(values, DType::kF32, kRows, cols, 1), want(values, DType::kF32, kRows, cols);
      const std::vector<std::int32_t> positions{0, 1, 2, 77, 1000, 4095, 131071, 5, 5};
      std::vector<float> frequencies;
      for (int i = 0; i < head_dim / 2; ++i)
        frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / head_dim));
      {
        DeviceMatrix x(got);
        const OnDevice<std::int32_t> p(positions);
        const OnDevice<float> f(frequencies);
        rope(stream(), x.view(), head_dim, p.data(), f.data());
        x.fetch();
      }
      reference().rope(want.view(), head_dim, positions, frequencies);
      finish_reference();
      // Both take the same f32 angle. Sine and cosine are within 2 ulp of 2^-24 here, 1 there; they
      // are factors of two numbers below 5, and three operations round on both sides.
      expect_close(got, want, kRows, cols, DType::kF32, 0x1p-18f);
      EXPECT_TRUE(got.padding_is_untouched());
    }
}

TEST_F(ElementwiseTest, GathersRowsInAnyOrderAndAgain) {
  for (const std::int64_t cols : kWidths)
    for (const std::int64_t padding : {0, 2, 16}) {
      Matrix x(random_numbers(7 * cols, 1), DType::kF32, 7, cols, padding);
      Matrix y(DType::kF32, 4, cols, padding + 1);
      const std::vector<std::int32_t> rows{6, 0, 6, 3};
      DeviceMatrix from(x), to(y);
      const OnDevice<std::int32_t> list(rows);
      gather_rows(stream(), from.view(), list.data(), to.view());
      to.fetch();
      for (std::int64_t i = 0; i < 4; ++i) ASSERT_EQ(y.bits(i, 1), x.bits(rows[i], 1)) << cols;
      EXPECT_TRUE(y.padding_is_untouched());
    }
}

TEST_F(ElementwiseTest, ABiasIsStoredInOrAddedToEachRow) {
  for (const std::int64_t cols : kWidths)
    for (const DType type : kTypes)
      for (const std::int64_t padding : {0, 1, 8}) {
        constexpr std::int64_t kRows = 3;
        const auto bias = random_numbers(cols, 1), values = random_numbers(kRows * cols, 2);
        Matrix stored(values, type, kRows, cols, padding);
        Matrix added(values, type, kRows, cols, padding), before(values, type, kRows, cols);
        DeviceMatrix store(stored), add(added);
        const OnDevice<float> b(bias);
        add_bias(stream(), b.data(), store.view(), Epilogue::kStore);
        add_bias(stream(), b.data(), add.view(), Epilogue::kAdd);
        store.fetch();
        add.fetch();
        Matrix want(type, 1, 1);
        for (std::int64_t r = 0; r < kRows; ++r)
          for (std::int64_t c = 0; c < cols; ++c) {
            want.set(0, 0, bias[c]);
            ASSERT_EQ(stored.at(r, c), want.at(0, 0)) << name_of(type) << " of " << cols;
            want.set(0, 0, bias[c] + before.at(r, c));
            ASSERT_EQ(added.at(r, c), want.at(0, 0)) << name_of(type) << " of " << cols;
          }
        EXPECT_TRUE(stored.padding_is_untouched() && added.padding_is_untouched());
      }
}

TEST_F(ElementwiseTest, RowsHaveTheSameBitsAloneAndInCompany) {
  constexpr std::int64_t kRows = 300, kCols = 100;
  const std::vector<float> frequencies(25, 0.3f);
  const auto values = random_numbers(kRows * kCols, 1);
  std::vector<std::int32_t> positions;
  for (int i = 0; i < kRows; ++i) positions.push_back(3 * i);
  const OnDevice<float> f(frequencies);
  const OnDevice<std::int32_t> p(positions);
  const auto run = [&](std::int64_t first, std::int64_t rows) {
    Matrix x(values, DType::kF32, kRows, kCols);
    DeviceMatrix on_device(x);
    const MatrixView some = on_device.view().row_range(first, rows);
    rope(stream(), some, 50, p.data() + first, f.data());
    activate(stream(), Activation::kGeluTanh, some, some, some);
    on_device.fetch();
    return x.bits(first, rows);
  };
  const auto all = run(0, kRows);
  for (const auto& [first, rows] : {std::pair{0, 1}, {299, 1}, {17, 100}, {163, 137}})
    EXPECT_EQ(run(first, rows), std::vector(all.begin() + first * kCols * 4,
                                            all.begin() + (first + rows) * kCols * 4));
}

TEST_F(ElementwiseTest, NothingIsDoneForNoRows) {
  const MatrixView none{nullptr, DType::kF32, 0, 64, 64};
  rope(stream(), none, 64, nullptr, nullptr);
  activate(stream(), Activation::kRelu, none, none, none);
  gather_rows(stream(), none, nullptr, none);
  add_bias(stream(), nullptr, none, Epilogue::kAdd);
  finish();
}

}  // namespace
}  // namespace barge::cuda
