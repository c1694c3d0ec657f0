#include "engine/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/block.h"

namespace barge {
namespace {

constexpr int kPage = 4;
constexpr std::size_t kPageBytes = 100;

// One layer, all of it in host memory.
KvDemand host_demand(int positions) {
  std::vector<PerTier<std::size_t>> by_pages;
  for (int n = 0; n < positions + kPage; n += kPage)
    by_pages.push_back({.device = 0, .host = static_cast<std::size_t>(n) / kPage * kPageBytes});
  return {kPage, std::move(by_pages)};
}

TEST(KvDemand, StepsUpWithTheFirstPositionOfAPageAndStaysAtTheFullLength) {
  const KvDemand demand = host_demand(9);  // three pages
  EXPECT_EQ(demand.at(0).host, 0u);
  EXPECT_EQ(demand.at(1).host, kPageBytes);
  EXPECT_EQ(demand.at(4).host, kPageBytes);
  EXPECT_EQ(demand.at(5).host, 2 * kPageBytes);
  EXPECT_EQ(demand.at(1000).host, 3 * kPageBytes);
}

TEST(KvFits, CountsASequenceAtItsFullLength) {
  const KvDemand demand = host_demand(9);
  const std::vector<KvForecast> one{
      {.demand = &demand, .decoding = false, .positions = 1, .positions_left = 8}};
  EXPECT_TRUE(kv_fits(one, {.device = 0, .host = 3 * kPageBytes}));
  EXPECT_FALSE(kv_fits(one, {.device = 0, .host = 3 * kPageBytes - 1}));
}

TEST(KvFits, LetsAnotherGrowIntoTheRoomOfADecodingSequenceThatEndsBefore) {
  const KvDemand ending = host_demand(8), growing = host_demand(12);
  std::vector<KvForecast> both{
      {.demand = &ending, .decoding = true, .positions = 6, .positions_left = 2},
      {.demand = &growing, .decoding = false, .positions = 2, .positions_left = 10}};
  // Two pages and one while both run; three when the first is gone.
  EXPECT_TRUE(kv_fits(both, {.device = 0, .host = 3 * kPageBytes}));
  both[0].decoding = false;  // then nobody knows when it will be gone
  EXPECT_FALSE(kv_fits(both, {.device = 0, .host = 3 * kPageBytes}));
}

TEST(KvFits, HoldsEachTierToItsOwnCapacity) {
  const KvDemand demand(kPage, {{}, {.device = 1, .host = 2, .disk = 3}});
  const std::vector<KvForecast> one{
      {.demand = &demand, .decoding = true, .positions = 1, .positions_left = 1}};
  EXPECT_TRUE(kv_fits(one, {.device = 1, .host = 2, .disk = 3}));
  EXPECT_FALSE(kv_fits(one, {.device = 0, .host = 9, .disk = 9}));
  EXPECT_FALSE(kv_fits(one, {.device = 9, .host = 1, .disk = 9}));
  EXPECT_FALSE(kv_fits(one, {.device = 9, .host = 9, .disk = 2}));
}

TEST(KvFits, LeavesOutWhatIsCountedElsewhere) {
  const KvDemand demand = host_demand(9);
  const std::vector<KvForecast> one{{.demand = &demand,
                                     .decoding = true,
                                     .positions = 4,
                                     .positions_left = 5,
                                     .shared = {.device = 0, .host = kPageBytes}}};
  EXPECT_TRUE(kv_fits(one, {.device = 0, .host = 2 * kPageBytes}));
  EXPECT_FALSE(kv_fits(one, {.device = 0, .host = 2 * kPageBytes - 1}));
}

// Runs random jobs through the real composition of blocks, sequences ending early as it happens.
TEST(KvFits, WhatItLetsInNeverOverflowsWhicheverEndEarly) {
  std::mt19937 random(11);
  const auto draw = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::size_t most_live = 0;
  for (int job = 0; job < 50; ++job) {
    const PerTier<std::size_t> capacity{.device = 0, .host = kPageBytes * draw(16, 40)};
    const BlockLimits limits{
        .sequences = 8, .micro_batch_sequences = 3, .rows = draw(8, 20), .wanted_rows = 8};
    std::vector<std::unique_ptr<Sequence>> waiting, live;
    for (int i = 0; i < 30; ++i) {
      auto s = std::make_unique<Sequence>();
      s->request.prompt.assign(draw(1, 30), 0);
      s->request.max_tokens = draw(1, 30);
      s->demand = host_demand(s->final_positions());
      waiting.push_back(std::move(s));
    }
    std::reverse(waiting.begin(), waiting.end());
    while (!waiting.empty() || !live.empty()) {
      while (!waiting.empty() && live.size() < 8) {
        std::vector<KvForecast> forecasts;
        const auto foresee = [&](const Sequence& s) {
          const bool decoding = s.prompt_left() == 0;
          const int positions = decoding ? s.fed : s.prompt_tokens();
          forecasts.push_back({&s.demand, decoding, positions, s.final_positions() - positions});
        };
        for (const auto& s : live) foresee(*s);
        foresee(*waiting.back());
        if (!kv_fits(forecasts, capacity)) break;
        live.push_back(std::move(waiting.back()));
        waiting.pop_back();
      }
      ASSERT_FALSE(live.empty());
      most_live = std::max(most_live, live.size());
      std::vector<Sequence*> order;
      for (const auto& s : live) order.push_back(s.get());
      const Block block = compose(order, limits, [](const Block::Member&) { return 0u; });
      ASSERT_GT(block.rows(), 0);
      for (const Block::Member& m : block.members) m.sequence->fed += m.rows;
      std::size_t held = 0;
      for (const auto& s : live) held += s->demand.at(s->fed).host;
      ASSERT_LE(held, capacity.host);
      for (const Block::Member& m : block.members) {
        if (m.num_wanted == 0) continue;
        m.sequence->answer.push_back(0);
        if (static_cast<int>(m.sequence->answer.size()) == m.sequence->request.max_tokens ||
            draw(0, 9) == 0)
          m.sequence->end = FinishReason::kStop;
      }
      std::erase_if(live, [](const auto& s) { return s->end.has_value(); });
    }
  }
  EXPECT_GT(most_live, 3u) << "the test never had company";
}

}  // namespace
}  // namespace barge
