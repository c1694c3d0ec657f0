#include "quant/format.h"

#include <gmock/gmock.h>

#include "core/errors.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(WeightFormat, IsReadBackFromItsOwnName) {
  for (const WeightFormat format :
       {WeightFormat{Encoding::kF32}, WeightFormat{Encoding::kF16}, WeightFormat{Encoding::kBF16},
        WeightFormat{Encoding::kQ8, 32, GroupAxis::kInput},
        WeightFormat{Encoding::kQ4, 128, GroupAxis::kOutput}})
    EXPECT_EQ(parse_weight_format(to_string(format)), format) << to_string(format);
  EXPECT_EQ(to_string({Encoding::kQ4, 64, GroupAxis::kInput}), "q4:64:input");
}

TEST(WeightFormat, RefusesAndQuotesNamesItDoesNotKnow) {
  for (const char* bad : {"", "q5", "q4", "q4:", "q4:64", "q4:0:input", "q4:64:inputs", "bf16:64",
                          "q4:-1:input", "q4:99999999999:input"})
    EXPECT_THAT([&] { parse_weight_format(bad); },
                ThrowsMessage<FormatError>(HasSubstr(std::string("'") + bad + "'")));
}

TEST(PanelLayout, RoundsOddColumnsUpToBytesAndAlignsScalesAndMins) {
  const auto layout = panel_layout({Encoding::kQ4, 64, GroupAxis::kInput}, 3, 129);
  EXPECT_EQ(layout.row_bytes, 65u);
  EXPECT_EQ(layout.groups, 3);
  EXPECT_EQ(layout.scales_offset, 256u);  // 195 bytes of codes
  EXPECT_EQ(layout.mins_offset, 320u);    // 18 bytes of scales
  EXPECT_EQ(layout.bytes, 338u);
}

TEST(PanelLayout, CountsGroupsAlongTheOutputsOnThatAxis) {
  const auto layout = panel_layout({Encoding::kQ8, 32, GroupAxis::kOutput}, 33, 10);
  EXPECT_EQ(layout.groups, 2);
  EXPECT_EQ(layout.scales_offset, 384u);
  EXPECT_EQ(layout.bytes, 384u + 2 * 2 * 10);
}

TEST(KvFormat, RecordsAreMultiplesOfSixteenAndPairsLieAtEvenAddresses) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kQ4})
    for (const int dim : {1, 2, 33, 64, 128}) {
      const KvFormat format{encoding, 3, dim, 64};
      EXPECT_EQ(format.record_bytes() % 16, 0u);
      EXPECT_EQ(format.k_scale_offset(0) % 2, 0u);
      EXPECT_GE(format.record_bytes(), format.v_scale_offset(2));
    }
  EXPECT_EQ((KvFormat{Encoding::kQ4, 4, 64, 64}.record_bytes()), 2u * 4 * (32 + 4));
}

}  // namespace
}  // namespace barge
