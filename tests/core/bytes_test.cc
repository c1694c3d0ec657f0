#include "core/bytes.h"

#include <gmock/gmock.h>

#include "core/errors.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Bytes, ReadsBinaryUnitsFractionsAndShares) {
  EXPECT_EQ(parse_bytes("96MiB", "--cpu-memory"), 96_MiB);
  EXPECT_EQ(parse_bytes("1.5GiB", "--cpu-memory"), 1536_MiB);
  EXPECT_EQ(parse_bytes("4096", "--cpu-memory"), 4096u);
  EXPECT_EQ(parse_bytes("25%", "--cpu-memory", 400), 100u);
}

TEST(Bytes, NamesTheFlagAndTheValueWhenItCannotReadThem) {
  for (const char* bad : {"", "abc", "-1GiB", "12XB", "200%", "9e30GiB", "nan"})
    EXPECT_THAT([&] { parse_bytes(bad, "--cpu-memory", 100); },
                ThrowsMessage<ConfigError>(HasSubstr("--cpu-memory")))
        << bad;
}

TEST(Bytes, FormatsWithTheLargestUnitBelowTheValue) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(96_MiB), "96.0 MiB");
  EXPECT_EQ(format_bytes(1280_MiB), "1.25 GiB");
}

}  // namespace
}  // namespace barge
