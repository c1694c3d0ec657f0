#include "policy/alternatives.h"

#include <gmock/gmock.h>

#include "tests/policy/sample.h"

namespace barge {
namespace {

const ShapeFor kShape = [](const Policy&) { return model(); };
const Workload kJob{128, 32, 1000};

TEST(Neighbours, AreNoBetterThanThePlanOrDontFit) {
  const TierLimits limits{0, 300_MiB, 100_GiB};
  const Plan plan = search(machine(), kShape, kJob, limits, {});
  const auto others = neighbours(machine(), kShape, kJob, limits, plan.policy);
  EXPECT_GT(others.size(), 5u);
  for (const Neighbour& other : others) {
    EXPECT_NE(other.plan.policy, plan.policy) << other.change;
    if (other.miss) {
      EXPECT_GT(other.miss->missing_bytes, 0u) << other.change;
      continue;
    }
    EXPECT_LE(other.plan.predicted.generated_tokens_per_s,
              1.02 * plan.predicted.generated_tokens_per_s)
        << other.change;
  }
}

TEST(Neighbours, SayWhatTheCpusAttentionWouldBring) {
  Profile profile = machine();
  profile.unified = false;
  profile.link_down = profile.link_up = 1e10;
  const TierLimits limits{300_MiB, 1_GiB, 100_GiB};
  for (const bool known : {false, true}) {
    if (known) profile.host_attention[16] = {1e10, 1e11};
    const Plan plan = search(profile, kShape, kJob, limits, {});
    std::vector<std::string> changes;
    for (const Neighbour& other : neighbours(profile, kShape, kJob, limits, plan.policy))
      changes.push_back(other.change);
    EXPECT_EQ(testing::Value(changes, testing::Contains("decode attention on the CPU")), known);
  }
}

TEST(Frontier, HasMoreTokensForMoreLatency) {
  const auto plans = frontier(machine(), kShape, kJob, {0, 400_MiB, 100_GiB}, {});
  ASSERT_GT(plans.size(), 3u);
  EXPECT_LE(plans.front().policy.block_sequences(), 2);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    EXPECT_GT(plans[i].predicted.seconds, plans[i - 1].predicted.seconds);
    EXPECT_GT(plans[i].predicted.generated_tokens_per_s,
              plans[i - 1].predicted.generated_tokens_per_s);
    EXPECT_FALSE(misfit(plans[i], {0, 400_MiB, 100_GiB}, true));
  }
}

TEST(Frontier, IsEmptyWhereNotEvenOneLineFits) {
  EXPECT_TRUE(frontier(machine(), kShape, kJob, {0, 8_MiB, 100_GiB}, {}).empty());
}

}  // namespace
}  // namespace barge
