#include "kernels/cpu/dequantise.h"

#include <gmock/gmock.h>

#include "tests/kernels/every_isa.h"
#include "tests/kernels/fixture.h"

namespace barge {
namespace {

// Layouts as oneDNN chooses them: AVX-512 BF16 (and AMX), AVX-512 f32, AVX2 f32, and plain bf16.
std::vector<TileLayout> layouts(std::int64_t inputs) {
  const std::int64_t even = (inputs + 1) / 2 * 2, sixteens = (inputs + 15) / 16 * 16;
  std::vector<TileLayout> all{
      {DType::kBF16, 2, 64, 0, inputs, (inputs + 31) / 32 * 32},
      {DType::kBF16, 2, 32, 32 * even, inputs, even},
      {DType::kF32, 1, 64, 0, inputs, sixteens},
      {DType::kF32, 1, 16, 16 * sixteens, inputs, sixteens},
      {DType::kF32, 1, 64, 0, inputs, inputs},
      {DType::kBF16, 1, 64, 0, inputs, inputs},
  };
  for (TileLayout& layout : all)
    layout.bytes =
        size_of(layout.dtype) * static_cast<std::size_t>(layout.padded_inputs * kTileChannels);
  return all;
}

float number(const TileLayout& layout, const std::vector<std::byte>& tile, std::int64_t k,
             std::int64_t n) {
  const std::int64_t i = n / layout.block * layout.block_stride +
                         k / layout.pack * layout.block * layout.pack +
                         n % layout.block * layout.pack + k % layout.pack;
  return layout.dtype == DType::kF32 ? reinterpret_cast<const float*>(tile.data())[i]
                                     : to_f32(reinterpret_cast<const BF16*>(tile.data())[i]);
}

constexpr std::int64_t kChannels = 150, kPanelRows = 23;

void expect_exact(const WeightFormat& format, std::int64_t inputs) {
  const Weights weights(format, kChannels, inputs, kPanelRows);
  const ChannelMap channels(weights.panels());
  std::vector<std::vector<float>> want;
  for (const WeightPanel& panel : weights.panels())
    for (std::int64_t row = 0; row < panel.layout.rows; ++row)
      decode_panel_row(panel.layout, {panel.data, panel.layout.bytes}, row,
                       want.emplace_back(inputs));
  for (const TileLayout& layout : layouts(inputs))
    for (const bool round : {false, true})
      for (std::int64_t first = 0; first < kChannels; first += kTileChannels) {
        std::vector<std::byte> tile(layout.bytes + 4 * kTileChannels, std::byte{0xff});
        dequantise_tile(channels, first, layout, round, tile.data());
        for (std::int64_t n = 0; n < kTileChannels; ++n)
          for (std::int64_t k = 0; k < layout.padded_inputs; ++k) {
            float exact = 0;
            if (first + n < kChannels && k < inputs) exact = want[first + n][k];
            if (round || layout.dtype == DType::kBF16) exact = to_f32(to_bf16(exact));
            ASSERT_EQ(number(layout, tile, k, n), exact)
                << to_string(format) << " of " << inputs << " inputs, blocks of " << layout.block
                << " of " << name_of(layout.dtype) << ", channel " << first + n << ", input " << k;
          }
      }
}

TEST(DequantiseTile, WritesWhatTheCodecDecodesRoundedToNearestInEveryLayoutAndIsa) {
  for_every_isa([] {
    for (const WeightFormat format :
         {WeightFormat{Encoding::kF32}, WeightFormat{Encoding::kF16}, WeightFormat{Encoding::kBF16},
          WeightFormat{Encoding::kQ8, 32}, WeightFormat{Encoding::kQ4, 32},
          WeightFormat{Encoding::kQ4, 64}, WeightFormat{Encoding::kQ4, 128},
          WeightFormat{Encoding::kQ4, 20}, WeightFormat{Encoding::kQ4, 23, GroupAxis::kOutput}})
      for (const std::int64_t inputs : {1, 33, 64, 129, 192}) expect_exact(format, inputs);
  });
}

TEST(DequantiseTile, MixesPanelsOfDifferentFormatsInATile) {
  const Weights a({Encoding::kQ4, 64}, 20, 64, 20, 1), b({Encoding::kBF16}, 20, 64, 20, 2);
  const std::vector<WeightPanel> both{a.panels()[0], b.panels()[0]};
  const TileLayout layout = layouts(64)[0];
  std::vector<std::byte> tile(layout.bytes);
  dequantise_tile(ChannelMap(both), 0, layout, false, tile.data());
  std::vector<float> want(64);
  decode_panel_row(both[0].layout, {both[0].data, both[0].layout.bytes}, 19, want);
  EXPECT_EQ(number(layout, tile, 63, 19), to_f32(to_bf16(want[63])));
  EXPECT_EQ(number(layout, tile, 63, 20), to_f32(to_bf16(b.values[63])));
}

}  // namespace
}  // namespace barge
