#include "core/duration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors.h"

namespace barge {
namespace {

TEST(Duration, TakesAWholeNumberAndAUnit) {
  EXPECT_EQ(parse_duration("90s", "--x"), 90);
  EXPECT_EQ(parse_duration("30m", "--x"), 1800);
  EXPECT_EQ(parse_duration("24h", "--x"), 86'400);
  EXPECT_EQ(parse_duration("7d", "--x"), 604'800);
  EXPECT_EQ(parse_duration("1w", "--x"), 604'800);
}

TEST(Duration, NamesTheFlagAndWhatItGotForAnythingElse) {
  for (const char* text : {"", "5", "h", "0s", "-1h", "1.5h", "24 h", "24hours", "99999999999w",
                           "9999999999999999999s"})
    EXPECT_THAT(
        [&] { parse_duration(text, "--batch-expiry"); },
        testing::ThrowsMessage<ConfigError>(testing::AllOf(
            testing::HasSubstr("--batch-expiry"), testing::HasSubstr(concat("'", text, "'")))))
        << text;
}

}  // namespace
}  // namespace barge
