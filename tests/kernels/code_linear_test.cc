#include <gmock/gmock.h>

#include <limits>

#include "core/errors.h"
#include "kernels/cpu/code_linear.h"
#include "kernels/rounded_inputs.h"
#include "tests/kernels/fixture.h"

namespace barge {
namespace {

struct Case {
  WeightFormat format;
  std::int64_t rows, inputs, outputs, panel_rows;
};

std::string name_of(const Case& c) {
  return concat(to_string(c.format), " ", c.rows, " x ", c.inputs, " x ", c.outputs);
}

// Each format, with one, few and many groups, rows around the kernel's 6 and the tile's 64, and
// panels that end inside a tile.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Encoding encoding : {Encoding::kQ4, Encoding::kQ8})
    for (const int group : {32, 64, 128}) {
      const WeightFormat format{encoding, group};
      all.push_back({format, 1, group, 1, 1});
      all.push_back({format, 5, 3 * group, 33, 2});
      all.push_back({format, 7, 5 * group, 70, 37});
      all.push_back({format, 65, 640, 130, 64});
      all.push_back({format, 130, 128, 192, 100});
    }
  return all;
}

class CodeLinearTest : public KernelsTest {
 protected:
  void make_8_bits(DType compute, int threads = 3) { make(compute, 1, 1, threads, 8); }
};

// Both sides multiply the same codes. The fast one adds groups up in f32: each of two additions a
// group is off by 2^-24 of a partial sum, which the sum of |x| |w| bounds, and scales are products
// rounded once. The reference rounds each decoded weight and each input to f32: twice 2^-24 of
// each.
void expect_close(const Case& c, const Weights& w, const Matrix& x, DType y_type, const Matrix& got,
                  const Matrix& want) {
  const auto groups = static_cast<float>(c.inputs / c.format.group);
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t n = 0; n < c.outputs; ++n) {
      // 4-bit codes stand for what is above the group's least weight, which is no further below
      // zero than 4.5: that much more of |x| is added, and taken off again.
      float sum = 0;
      for (std::int64_t k = 0; k < c.inputs; ++k)
        sum += std::fabs(x.at(r, k)) * (std::fabs(w.values[n * c.inputs + k]) + 9);
      ASSERT_NEAR(
          got.at(r, n), want.at(r, n),
          (2 * groups + 4) * 0x1p-24f * sum + 2 * rounding_of(y_type) * std::fabs(want.at(r, n)))
          << name_of(c) << " at " << r << ", " << n;
    }
}

TEST_F(CodeLinearTest, AgreesWithTheReferenceInEachFormatAtEdgeSizes) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    make_8_bits(compute);
    for (const Case& c : cases()) {
      const Weights w(c.format, c.outputs, c.inputs, c.panel_rows);
      Matrix x(random_numbers(c.rows * c.inputs, 4), compute, c.rows, c.inputs, 3);
      auto bias = random_numbers(c.outputs, 5);
      Matrix got(DType::kF32, c.rows, c.outputs, 2), want(DType::kF32, c.rows, c.outputs);
      fast().linear(x.view(), w.panels(), bias.data(), got.view(), Epilogue::kStore);
      reference().linear(x.view(), w.panels(), bias.data(), want.view(), Epilogue::kStore);
      finish();
      expect_close(c, w, x, DType::kF32, got, want);
      EXPECT_TRUE(got.padding_is_untouched());
    }
  }
}

TEST_F(CodeLinearTest, AddsToWhatIsThereAndStoresInTheComputeType) {
  for (const DType compute : {DType::kF32, DType::kBF16})
    for (const Encoding encoding : {Encoding::kQ4, Encoding::kQ8}) {
      const Case c{{encoding, 64}, 67, 192, 70, 33};
      make_8_bits(compute);
      const Weights w(c.format, c.outputs, c.inputs, c.panel_rows);
      Matrix x(random_numbers(c.rows * c.inputs, 4), compute, c.rows, c.inputs);
      const auto before = random_numbers(c.rows * c.outputs, 6);
      Matrix got(before, DType::kF32, c.rows, c.outputs),
          want(before, DType::kF32, c.rows, c.outputs);
      Matrix got_narrow(compute, c.rows, c.outputs), want_narrow(compute, c.rows, c.outputs);
      for (auto [table, y, narrow] : {std::tuple{&fast(), &got, &got_narrow},
                                      std::tuple{&reference(), &want, &want_narrow}}) {
        table->linear(x.view(), w.panels(), nullptr, y->view(), Epilogue::kAdd);
        table->linear(x.view(), w.panels(), nullptr, narrow->view(), Epilogue::kStore);
      }
      finish();
      expect_close(c, w, x, DType::kF32, got, want);
      expect_close(c, w, x, compute, got_narrow, want_narrow);
    }
}

// Rounding x moves each product of a group by at most half a code times |w|.
TEST_F(CodeLinearTest, StaysWithinHalfACodeOfProductsOfUnroundedInputs) {
  const Case c{{Encoding::kQ4, 64}, 20, 640, 96, 96};
  make_8_bits(DType::kF32);
  const Weights w(c.format, c.outputs, c.inputs, c.panel_rows);
  Matrix x(random_numbers(c.rows * c.inputs, 4), DType::kF32, c.rows, c.inputs);
  Matrix rounded(DType::kF32, c.rows, c.outputs), exact(DType::kF32, c.rows, c.outputs);
  fast().linear(x.view(), w.panels(), nullptr, rounded.view(), Epilogue::kStore);
  finish();
  make(DType::kF32);
  reference().linear(x.view(), w.panels(), nullptr, exact.view(), Epilogue::kStore);
  finish();
  double error = 0, all = 0;
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t n = 0; n < c.outputs; ++n) {
      error += std::pow(rounded.at(r, n) - exact.at(r, n), 2.0);
      all += std::pow(exact.at(r, n), 2.0);
    }
  // Of 64 normal numbers the largest is about 2.4: codes are 2.4 / 127 apart, errors 1 / sqrt(12)
  // of that.
  EXPECT_NEAR(std::sqrt(error / all), 2.4 / 127 / std::sqrt(12), 1e-3);
}

// The property that everything else rests on: a row's bits are its own.
TEST_F(CodeLinearTest, GivesARowTheSameBitsInAnyCompanyAtAnyPlace) {
  constexpr std::int64_t kRows = 200, kInputs = 320, kOutputs = 70;
  for (const Encoding encoding : {Encoding::kQ4, Encoding::kQ8}) {
    make_8_bits(DType::kBF16);
    const Weights w({encoding, 64}, kOutputs, kInputs, 40);
    Matrix x(random_numbers(kRows * kInputs, 4), DType::kBF16, kRows, kInputs);
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

TEST_F(CodeLinearTest, GivesTheSameBitsWhateverTheThreadsPanelsAndStrides) {
  constexpr std::int64_t kRows = 530, kInputs = 576, kOutputs = 400;  // more rows than at once
  std::vector<std::byte> first;
  const auto values = random_numbers(kRows * kInputs, 4);
  for (const int threads : {1, 2, 5, 40})
    for (const std::int64_t panel_rows : {400, 64, 50}) {
      make_8_bits(DType::kBF16, threads);
      const Weights w({Encoding::kQ4, 32}, kOutputs, kInputs, panel_rows);
      Matrix x(values, DType::kBF16, kRows, kInputs, panel_rows == 64 ? 5 : 0);
      Matrix y(DType::kF32, kRows, kOutputs);
      fast().linear(x.view(), w.panels(), nullptr, y.view(), Epilogue::kStore);
      finish();
      if (first.empty()) first = y.bits(0, kRows);
      ASSERT_TRUE(y.bits(0, kRows) == first) << threads << " threads, " << panel_rows << " a panel";
    }
}

TEST_F(CodeLinearTest, LeavesOtherFormatsAsTheyAreIn16Bits) {
  for (const auto& [format, inputs] : std::vector<std::pair<WeightFormat, std::int64_t>>{
           {{Encoding::kBF16}, 128},
           {{Encoding::kQ4, 64}, 129},
           {{Encoding::kQ4, 20}, 120},
           {{Encoding::kQ8, 32, GroupAxis::kOutput}, 64}}) {
    const Weights w(format, 70, inputs, 40);
    Matrix x(random_numbers(9 * inputs, 4), DType::kBF16, 9, inputs);
    std::vector<std::byte> bits[2];
    for (const int activation_bits : {16, 8}) {
      make(DType::kBF16, 1, 1, 3, activation_bits);
      Matrix y(DType::kF32, 9, 70);
      fast().linear(x.view(), w.panels(), nullptr, y.view(), Epilogue::kStore);
      finish();
      bits[activation_bits == 8] = y.bits(0, 9);
    }
    EXPECT_TRUE(bits[0] == bits[1]) << to_string(format);
  }
}

TEST_F(CodeLinearTest, HandsOnWhatIsNotFiniteAndTakesZerosAndTinyNumbersForNothing) {
  make_8_bits(DType::kF32);
  for (const Encoding encoding : {Encoding::kQ4, Encoding::kQ8}) {
    const Weights w({encoding, 32}, 40, 64, 40);
    Matrix x(random_numbers(5 * 64, 4), DType::kF32, 5, 64), y(DType::kF32, 5, 40);
    x.set(0, 40, std::numeric_limits<float>::quiet_NaN());
    x.set(1, 7, std::numeric_limits<float>::infinity());
    x.set(2, 63, -std::numeric_limits<float>::infinity());
    for (int k = 0; k < 64; ++k) x.set(3, k, k % 2 == 0 ? 0 : kLeastInput / 2);
    for (Kernels* table : {&fast(), &reference()}) {
      table->linear(x.view(), w.panels(), nullptr, y.view(), Epilogue::kStore);
      finish();
      for (int n = 0; n < 40; ++n) {
        for (int r = 0; r < 3; ++r) EXPECT_FALSE(std::isfinite(y.at(r, n))) << r << ", " << n;
        EXPECT_EQ(y.at(3, n), 0);
        EXPECT_TRUE(std::isfinite(y.at(4, n)));
      }
    }
  }
}

TEST_F(CodeLinearTest, TakesExactlyTheWorkspaceThatItSaysItTakes) {
  make_8_bits(DType::kBF16);
  const KernelLimits limits{DType::kBF16, 512, kMaxInputs, 1, 1, 8};
  EXPECT_EQ(budgets_.host.by_tag().at("workspace"),
            round_up(cpu_workspace_bytes(limits, 3), kSectorBytes));
  EXPECT_GE(cpu_workspace_bytes(limits, 3),
            3 * CodeLinear::workspace_bytes(limits) + CodeLinear::shared_bytes(limits));
}

// Codes, scales, tile and sums of one implementation, in memory of its own.
struct Steps {
  Steps(const CodeProduct& product, const CodeShape& shape, const MatrixView& x,
        const ChannelMap& channels)
      : codes(static_cast<std::size_t>(x.rows * x.cols)),
        scales(static_cast<std::size_t>(x.rows * shape.groups())),
        sums(scales.size()),
        memory(shape.tile_bytes() + 64),
        results(static_cast<std::size_t>(x.rows * kTileChannels) + 16) {
    const RowCodes rows{codes.data(), x.cols, scales.data(), sums.data(), shape.groups()};
    for (std::int64_t r = 0; r < x.rows; ++r) product.quantise_row(shape, x, r, rows.row(r));
    auto* const tile = aligned(memory.data());
    product.unpack_tile(shape, channels, 0, tile);
    auto* const to =
        reinterpret_cast<float*>(aligned(reinterpret_cast<std::byte*>(results.data())));
    product.multiply(shape, rows, x.rows, tile, to);
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t n = 0; n < channels.channels(); ++n)
        products.push_back(to[r * kTileChannels + n]);
  }

  static std::byte* aligned(std::byte* at) {
    return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(at), 64));
  }

  std::vector<std::int8_t> codes;
  std::vector<float> scales, sums;
  std::vector<std::byte> memory;
  std::vector<float> results, products;
};

TEST(CodeProductTest, GivesTheSameBitsOnEveryProcessor) {
  if (!multiplies_codes_fast()) GTEST_SKIP() << "no AVX-512 VNNI";
  for (const Case& c : cases()) {
    const std::int64_t outputs = std::min(c.outputs, kTileChannels);
    const Weights w(c.format, outputs, c.inputs, c.panel_rows);
    const CodeShape shape{c.format.encoding, c.format.group, c.inputs};
    const ChannelMap channels(w.panels());
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Matrix x(random_numbers(c.rows * c.inputs, 4), dtype, c.rows, c.inputs, 1);
      const Steps plain(*make_plain_code_product(), shape, x.view(), channels);
      const Steps vnni(*make_vnni_code_product(), shape, x.view(), channels);
      ASSERT_EQ(plain.codes, vnni.codes) << name_of(c);
      ASSERT_EQ(plain.scales, vnni.scales) << name_of(c);
      ASSERT_EQ(plain.products, vnni.products) << name_of(c);
    }
  }
}

}  // namespace
}  // namespace barge
