#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace barge {
namespace {

TEST(StopMatcher, GivesEverythingAtOnceWithoutStopStrings) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, HoldsBackWhatMayBecomeAStopStringAndNoMore) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("so E"), "so ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("Emy"), "ENEmy");
  EXPECT_EQ(matcher.push("EE"), "E");
  EXPECT_EQ(matcher.flush(), "E");
}

TEST(StopMatcher, FindsAStopStringAcrossPiecesAndSwallowsTheRest) {
  StopMatcher matcher({"\n\n"});
  EXPECT_EQ(matcher.push("one\n"), "one");
  EXPECT_EQ(matcher.push("\ntwo"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("three"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, TakesTheOneThatIsCompleteFirstAndOfThoseTheLongest) {
  StopMatcher early({"xaby", "ab"});
  EXPECT_EQ(early.push("xaby"), "x");
  StopMatcher longest({"b", "ab"});
  EXPECT_EQ(longest.push("xab"), "x");
}

// However a text is cut into pieces, the same text comes out: as if it had come byte by byte.
TEST(StopMatcher, DoesNotDependOnWhereThePiecesAreCut) {
  std::mt19937 random(5);
  const auto draw = [&random](int high) {
    return std::uniform_int_distribution<int>(0, high)(random);
  };
  int stops_found = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = draw(20); i > 0; --i) text += static_cast<char>('a' + draw(1));
    std::vector<std::string> stops(2);
    for (std::string& stop : stops)
      for (int i = 1 + draw(4); i > 0; --i) stop += static_cast<char>('a' + draw(1));
    std::string expected;
    StopMatcher bytewise(stops);
    for (const char c : text) expected += bytewise.push({&c, 1});
    expected += bytewise.flush();
    std::string got;
    StopMatcher matcher(stops);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + static_cast<std::size_t>(draw(4));
      got += matcher.push(std::string_view(text).substr(at, n));
      at += n;
    }
    got += matcher.flush();
    ASSERT_EQ(got, expected) << text << " stops " << stops[0] << " and " << stops[1];
    ASSERT_EQ(matcher.stopped(), bytewise.stopped());
    stops_found += matcher.stopped();
  }
  EXPECT_GT(stops_found, 200);
}

}  // namespace
}  // namespace barge
