#include "quant/codec.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/dtype.h"
#include "core/errors.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> random_numbers(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1f, 1.0f);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = normal(random);
  return numbers;
}

std::vector<float> round_trip(const PanelLayout& layout, const std::vector<float>& rows) {
  std::vector<std::byte> panel(layout.bytes);
  encode_panel(layout, rows, panel);
  std::vector<float> out(rows.size());
  for (std::int64_t r = 0; r < layout.rows; ++r)
    decode_panel_row(layout, panel, r, std::span(out).subspan(r * layout.cols, layout.cols));
  return out;
}

// Indices of the numbers that share a group with number (r, c).
std::vector<std::size_t> group_of(const PanelLayout& layout, std::int64_t r, std::int64_t c) {
  std::vector<std::size_t> members;
  const bool input = layout.format.axis == GroupAxis::kInput;
  const std::int64_t first = (input ? c : r) / layout.format.group * layout.format.group;
  const std::int64_t end = std::min(first + layout.format.group, input ? layout.cols : layout.rows);
  for (std::int64_t i = first; i < end; ++i)
    members.push_back(static_cast<std::size_t>(input ? r * layout.cols + i : i * layout.cols + c));
  return members;
}

constexpr std::int64_t kShapes[][2] = {{1, 1}, {1, 64}, {3, 33}, {5, 65}, {64, 7}, {70, 192}};

TEST(Codec, Q4IsWithinHalfAStepPlusTheRoundingOfScaleAndMinOnEitherAxis) {
  for (const GroupAxis axis : {GroupAxis::kInput, GroupAxis::kOutput})
    for (const int group : {32, 64, 128})
      for (const auto& [rows, cols] : kShapes) {
        const auto layout = panel_layout({Encoding::kQ4, group, axis}, rows, cols);
        const auto exact = random_numbers(rows * cols, 7), got = round_trip(layout, exact);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c) {
            float low = INFINITY, high = -INFINITY;
            for (const std::size_t i : group_of(layout, r, c)) {
              low = std::min(low, exact[i]);
              high = std::max(high, exact[i]);
            }
            // Scale and min are each off by at most 2^-11 of themselves; 15 codes of the former.
            const float step = (high - low) / 15, most = std::max(std::fabs(low), high - low);
            EXPECT_NEAR(got[r * cols + c], exact[r * cols + c], 0.5f * step + most * 0x1p-10f)
                << to_string(layout.format) << " of " << rows << " x " << cols << " at " << r
                << ", " << c;
          }
      }
}

TEST(Codec, Q8IsWithinHalfAStepPlusTheRoundingOfTheScale) {
  for (const GroupAxis axis : {GroupAxis::kInput, GroupAxis::kOutput})
    for (const auto& [rows, cols] : kShapes) {
      const auto layout = panel_layout({Encoding::kQ8, 32, axis}, rows, cols);
      const auto exact = random_numbers(rows * cols, 8), got = round_trip(layout, exact);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) {
          float most = 0;
          for (const std::size_t i : group_of(layout, r, c))
            most = std::max(most, std::fabs(exact[i]));
          EXPECT_NEAR(got[r * cols + c], exact[r * cols + c], 0.5f * most / 127 + most * 0x1p-10f);
        }
    }
}

TEST(Codec, SixteenBitFormatsRoundToNearestAndF32KeepsEveryBit) {
  const auto exact = random_numbers(3 * 33, 9);
  const auto f32 = round_trip(panel_layout({Encoding::kF32}, 3, 33), exact);
  const auto f16 = round_trip(panel_layout({Encoding::kF16}, 3, 33), exact);
  const auto bf16 = round_trip(panel_layout({Encoding::kBF16}, 3, 33), exact);
  EXPECT_EQ(f32, exact);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(f16[i], to_f32(to_f16(exact[i])));
    EXPECT_EQ(bf16[i], to_f32(to_bf16(exact[i])));
  }
}

TEST(Codec, ConstantGroupsComeBackExactlyIfF16HoldsThem) {
  const std::vector<float> rows(2 * 65, -1.5f);
  EXPECT_EQ(round_trip(panel_layout({Encoding::kQ4, 64}, 2, 65), rows), rows);
  const std::vector<float> zeros(2 * 65, 0.0f);
  EXPECT_EQ(round_trip(panel_layout({Encoding::kQ8, 64}, 2, 65), zeros), zeros);
}

TEST(Codec, EvenColumnsLieInTheLowNibble) {
  const auto layout = panel_layout({Encoding::kQ4, 32}, 1, 3);
  ASSERT_EQ(layout.row_bytes, 2u);
  std::vector<std::byte> panel(layout.bytes);
  encode_panel(layout, std::vector<float>{0, 15, 4}, panel);  // scale 1, min 0
  EXPECT_EQ(panel[0], std::byte{0xf0});
  EXPECT_EQ(panel[1], std::byte{0x04});
}

TEST(Codec, RefusesWhatIsNotFiniteAndWhatSixteenBitsCannotHoldNamingThePlace) {
  std::vector<float> rows(2 * 3);
  for (const float bad : {NAN, INFINITY, -INFINITY})
    for (const Encoding encoding :
         {Encoding::kF32, Encoding::kF16, Encoding::kBF16, Encoding::kQ8, Encoding::kQ4}) {
      const auto layout = panel_layout({encoding, 32}, 2, 3);
      std::vector<std::byte> panel(layout.bytes);
      rows[4] = bad;
      EXPECT_THAT([&] { encode_panel(layout, rows, panel); },
                  ThrowsMessage<FormatError>(HasSubstr("row 1, column 1")));
    }
  rows[4] = 70000;
  const auto layout = panel_layout({Encoding::kF16}, 2, 3);
  std::vector<std::byte> panel(layout.bytes);
  EXPECT_THAT([&] { encode_panel(layout, rows, panel); },
              ThrowsMessage<FormatError>(HasSubstr("70000")));
}

TEST(Codec, RefusesBuffersOfAnotherSize) {
  const auto layout = panel_layout({Encoding::kQ4, 32}, 2, 3);
  std::vector<std::byte> panel(layout.bytes);
  EXPECT_THROW(encode_panel(layout, std::vector<float>(5), panel), FormatError);
  std::vector<float> row(3);
  EXPECT_THROW(decode_panel_row(layout, panel, 2, row), FormatError);
}

TEST(KvCodec, KeepsEachHeadOfKAndVToItselfInEveryEncoding) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kQ4})
    for (const int head_dim : {1, 5, 64, 80, 128}) {
      const KvFormat format{encoding, 3, head_dim, 64};
      auto k = random_numbers(3 * head_dim, 10), v = random_numbers(3 * head_dim, 11);
      for (float& x : v) x += 100;  // a value in the wrong place is seen
      std::vector<std::byte> record(format.record_bytes() + 1, std::byte{0x5a});
      encode_kv(format, k, v, record);
      EXPECT_EQ(record.back(), std::byte{0x5a});
      std::vector<float> k2(k.size()), v2(v.size());
      decode_kv(format, record, k2, v2);
      for (std::size_t i = 0; i < k.size(); ++i) {
        // Q4: |x| < 4 spread over 15 steps, v's min near 97 rounds by at most 2^-5.
        const float relative = encoding == Encoding::kF32 ? 0 : 0x1p-11f;
        const float step = encoding == Encoding::kQ4 ? 8.0f / 15 / 2 + 8 * 0x1p-10f + 0x1p-5f : 0;
        EXPECT_NEAR(k2[i], k[i], std::fabs(k[i]) * relative + step);
        EXPECT_NEAR(v2[i], v[i], std::fabs(v[i]) * relative + step);
      }
    }
}

TEST(KvCodec, TakesNoNumberThatIsNotOneWithoutCrashing) {
  const KvFormat format{Encoding::kQ4, 1, 4, 64};
  std::vector<std::byte> record(format.record_bytes());
  const std::vector<float> k{NAN, 1, 2, 3}, v{INFINITY, 1, 2, 3};
  encode_kv(format, k, v, record);
  std::vector<float> k2(4), v2(4);
  decode_kv(format, record, k2, v2);
  EXPECT_FALSE(std::isfinite(v2[0]) && std::isfinite(v2[3]));  // the trouble stays visible
}

TEST(KvCodec, RefusesEncodingsThatTheCacheDoesNotHave) {
  const KvFormat format{Encoding::kQ8, 1, 4, 64};
  std::vector<std::byte> record(64);
  EXPECT_THROW(encode_kv(format, std::vector<float>(4), std::vector<float>(4), record),
               ConfigError);
}

TEST(RelativeError, IsTheErrorsNormOverTheExactOnes) {
  EXPECT_DOUBLE_EQ(relative_rms_error(std::vector<float>{3, 4}, std::vector<float>{3, 9}), 1.0);
  EXPECT_DOUBLE_EQ(relative_rms_error(std::vector<float>{0}, std::vector<float>{0}), 0.0);
}

}  // namespace
}  // namespace barge
