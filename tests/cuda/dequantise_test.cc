// Panels decoded and encoded by a GPU: the codec's own bits.
#include "quant/codec.h"
#include "tests/cuda/fixture.h"

namespace barge::cuda {
namespace {

using DequantiseTest = CudaTest;

// Every encoding, both axes; the last three are for no fast kernel.
const WeightFormat kFormats[] = {{Encoding::kF32},
                                 {Encoding::kF16},
                                 {Encoding::kBF16},
                                 {Encoding::kQ4, 32},
                                 {Encoding::kQ4, 64},
                                 {Encoding::kQ4, 128},
                                 {Encoding::kQ8, 32},
                                 {Encoding::kQ8, 64},
                                 {Encoding::kQ4, 64, GroupAxis::kOutput},
                                 {Encoding::kQ4, 128, GroupAxis::kOutput},
                                 {Encoding::kQ8, 32, GroupAxis::kOutput},
                                 {Encoding::kQ4, 7},
                                 {Encoding::kQ4, 6, GroupAxis::kOutput},
                                 {Encoding::kQ8, 4}};
// Rows: fewer and more than a thread takes, groups cut short; columns: odd ones, one piece of
// eight, a short last group, more than a block of threads takes.
const std::pair<std::int64_t, std::int64_t> kShapes[] = {
    {1, 1}, {3, 7}, {4, 8}, {5, 31}, {1, 32}, {9, 33}, {33, 127}, {66, 128}, {7, 136}, {2, 1032}};

std::vector<std::byte> bytes_of(const WeightPanel& panel) {
  return {panel.data, panel.data + panel.layout.bytes};
}

// What the codec makes of a panel, rounded to `type` and added to `base` (if any).
void decode(const WeightPanel& panel, Matrix& to, const Matrix* base = nullptr) {
  std::vector<float> row(static_cast<std::size_t>(panel.layout.cols));
  for (std::int64_t r = 0; r < panel.layout.rows; ++r) {
    decode_panel_row(panel.layout, {panel.data, panel.layout.bytes}, r, row);
    for (std::int64_t c = 0; c < panel.layout.cols; ++c)
      to.set(r, c, row[c] + (base != nullptr ? base->at(r, c) : 0.0f));
  }
}

TEST_F(DequantiseTest, GivesTheCodecsBitsForEveryEncodingShapeTypeAndStride) {
  for (const WeightFormat& format : kFormats)
    for (const auto& [rows, cols] : kShapes) {
      const Weights weights(format, rows, cols, rows);
      const WeightPanel& panel = weights.panels()[0];
      const OnDevice<std::byte> there(bytes_of(panel));
      for (const DType type : kTypes)
        for (const std::int64_t padding : {0, 1, 8}) {
          Matrix got(type, rows, cols, padding), want(type, rows, cols);
          DeviceMatrix to(got);
          dequantise(stream(), {there.data(), panel.layout}, to.view());
          to.fetch();
          decode(panel, want);
          ASSERT_EQ(got.bits(0, rows), want.bits(0, rows))
              << to_string(format) << " " << rows << " x " << cols << " to " << name_of(type);
          EXPECT_TRUE(got.padding_is_untouched());
        }
    }
}

TEST_F(DequantiseTest, RowsOfATableAreStoredOrAdded) {
  for (const WeightFormat& format : kFormats)
    for (const std::int64_t cols : {1, 33, 64, 301, 1032}) {
      constexpr std::int64_t kRows = 6;
      const Weights weights(format, kRows, cols, kRows);
      const WeightPanel& panel = weights.panels()[0];
      const OnDevice<std::byte> there(bytes_of(panel));
      const auto before = random_numbers(kRows * cols, 9);
      Matrix base(before, DType::kF32, kRows, cols), added(before, DType::kF32, kRows, cols, 8);
      Matrix stored(DType::kF32, kRows, cols, 1), want(DType::kF32, kRows, cols);
      DeviceMatrix store(stored), add(added);
      decode_rows(stream(), {there.data(), panel.layout}, store.view(), Epilogue::kStore);
      decode_rows(stream(), {there.data(), panel.layout}, add.view(), Epilogue::kAdd);
      store.fetch();
      add.fetch();
      decode(panel, want);
      ASSERT_EQ(stored.bits(0, kRows), want.bits(0, kRows)) << to_string(format) << " of " << cols;
      decode(panel, want, &base);
      ASSERT_EQ(added.bits(0, kRows), want.bits(0, kRows)) << to_string(format) << " of " << cols;
      EXPECT_TRUE(stored.padding_is_untouched() && added.padding_is_untouched());
    }
}

TEST_F(DequantiseTest, DecodesTheExtremesOfHalfPrecisionScales) {
  const auto layout = panel_layout({Encoding::kQ4, 32}, 4, 32);
  for (const float top : {0x1p-24f, 0x1p-14f, 65504.0f}) {  // subnormal scales; the largest ones
    std::vector<float> values(4 * 32);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = top * static_cast<float>(i % 16) / 15.0f;
    std::vector<std::byte> bytes(layout.bytes);
    encode_panel(layout, values, bytes);
    const OnDevice<std::byte> there(bytes);
    Matrix got(DType::kF32, 4, 32), want(DType::kF32, 4, 32);
    DeviceMatrix to(got);
    dequantise(stream(), {there.data(), layout}, to.view());
    to.fetch();
    decode({bytes.data(), layout}, want);
    EXPECT_EQ(got.bits(0, 4), want.bits(0, 4)) << top;
  }
}

TEST_F(DequantiseTest, EncodesEveryFormatBitForBitAsTheCodec) {
  for (const WeightFormat& format : kFormats)
    for (const auto& [rows, cols] : kShapes)
      for (const std::int64_t padding : {0, 3}) {
        auto values = random_numbers(rows * cols, 4);
        // A group of equal numbers, one of zeros of both signs, and ties of the rounding.
        for (std::int64_t i = 0; i < std::min<std::int64_t>(rows * cols, 32); ++i)
          values[i] = i % 3 == 0 ? -0.0f : 0.0f;
        if (cols >= 128) std::fill_n(values.begin() + cols, 128, 0.75f);
        for (std::size_t i = 300; i < values.size(); ++i)
          values[i] = std::nearbyint(values[i] * 8) / 16;
        Matrix from(values, DType::kF32, rows, cols, padding);
        const auto layout = panel_layout(format, rows, cols);
        std::vector<std::byte> want(layout.bytes), garbage(layout.bytes, std::byte{0x77});
        encode_panel(layout, values, want);
        const OnDevice<std::byte> there(garbage);
        const DeviceMatrix x(from);
        quantise(stream(), layout, x.view(), there.data());
        finish();
        ASSERT_EQ(there.read(), want) << to_string(format) << " " << rows << " x " << cols;
      }
}

TEST_F(DequantiseTest, NothingIsDoneForNoRows) {
  const PanelLayout none{.format = {Encoding::kQ4, 64}, .rows = 0, .cols = 64};
  const MatrixView empty{nullptr, DType::kF32, 0, 64, 64};
  dequantise(stream(), {nullptr, none}, empty);
  decode_rows(stream(), {nullptr, none}, empty, Epilogue::kAdd);
  quantise(stream(), none, empty, nullptr);
  finish();
}

}  // namespace
}  // namespace barge::cuda
