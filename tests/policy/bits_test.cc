#include "policy/bits.h"

#include <gtest/gtest.h>

#include <vector>

namespace barge {
namespace {

BitsOption chosen(const std::vector<BitsOption>& options) {
  return options[widest_of_the_fast(options)];
}

TEST(WidestOfTheFast, TakesMoreBitsWhereTheyCostNoSpeed) {
  EXPECT_EQ(chosen({{4, 16, 100}, {8, 16, 99}, {16, 16, 97.1}}).weight_bits, 16);
  EXPECT_EQ(chosen({{4, 16, 100}, {8, 16, 99}, {16, 16, 96.9}}).weight_bits, 8);
  EXPECT_EQ(chosen({{16, 16, 96}, {8, 16, 96}, {4, 16, 100}}).weight_bits, 4);
  EXPECT_EQ(chosen({{4, 16, 90}, {8, 16, 100}, {16, 16, 20}}).weight_bits, 8);
}

TEST(WidestOfTheFast, PrefersWideWeightsToAWideCache) {
  const BitsOption both = chosen({{4, 4, 100}, {4, 16, 99}, {8, 4, 98}, {8, 16, 50}});
  EXPECT_EQ(both.weight_bits, 8);
  EXPECT_EQ(both.kv_bits, 4);
}

TEST(WidestOfTheFast, TakesNoneThatDoesntFitUnlessNoneDoes) {
  EXPECT_EQ(chosen({{16, 16, 0}, {8, 16, 1}, {4, 16, 1}}).weight_bits, 8);
  EXPECT_EQ(chosen({{16, 16, 0}, {4, 4, 0}, {4, 16, 0}}).kv_bits, 4);
}

}  // namespace
}  // namespace barge
