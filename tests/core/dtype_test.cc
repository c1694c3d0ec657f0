#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace barge {
namespace {

TEST(DType, EveryF16SurvivesTheWayToF32AndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 x{static_cast<std::uint16_t>(bits)};
    if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0) {
      EXPECT_TRUE(std::isnan(to_f32(to_f16(to_f32(x)))));
      continue;
    }
    ASSERT_EQ(to_f16(to_f32(x)).bits, x.bits);
  }
}

TEST(DType, RoundsHalfwayCasesToEven) {
  EXPECT_EQ(to_f32(to_f16(1 + 0x1p-11f)), 1.0f);             // halfway, down to even
  EXPECT_EQ(to_f32(to_f16(1 + 3 * 0x1p-11f)), 1 + 0x1p-9f);  // halfway, up to even
  EXPECT_EQ(to_f32(to_f16(0x1p-25f)), 0.0f);
  EXPECT_EQ(to_f32(to_f16(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(to_f32(to_f16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(to_f32(to_f16(65520.0f))));
  EXPECT_EQ(to_f32(to_bf16(1 + 0x1p-8f)), 1.0f);
  EXPECT_EQ(to_f32(to_bf16(1 + 3 * 0x1p-8f)), 1 + 0x1p-6f);
  EXPECT_TRUE(std::isnan(to_f32(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace barge
