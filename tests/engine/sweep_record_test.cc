#include "engine/sweep_record.h"

#include <gtest/gtest.h>

namespace barge {
namespace {

TEST(SweepRecord, CountsEachRowsKeysAndWhatAnswersLookBackOn) {
  Block block;
  block.wanted = {0, 4};
  block.members.push_back({.rows = 1, .first_position = 9, .prompt = false});
  block.members.push_back({.rows = 4, .first_position = 2, .prompt = true});
  const SweepRecord record = record_of(block);
  EXPECT_EQ(record.answer_rows, 1);
  EXPECT_EQ(record.prompt_rows, 4);
  EXPECT_TRUE(record.prefill());
  EXPECT_EQ(record.logit_rows, 2);
  EXPECT_EQ(record.keys, 10 + (3 + 4 + 5 + 6));
  EXPECT_EQ(record.read_positions, 10);
}

}  // namespace
}  // namespace barge
