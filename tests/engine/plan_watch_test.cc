#include "engine/plan_watch.h"

#include <gmock/gmock.h>

#include "tests/policy/sample.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// A sweep of so many decoding rows, and what it is predicted to take.
SweepRecord sweep_of(const Profile& profile, std::int64_t rows, double factor) {
  SweepRecord sweep{.answer_rows = rows, .logit_rows = rows};
  const SweepPricer pricer(profile, model(), {});
  const SweepLoad load{.rows = static_cast<double>(rows), .logits = static_cast<double>(rows)};
  sweep.seconds = factor * pricer.seconds(load).longest();
  return sweep;
}

TEST(PlanWatch, SaysNothingWhereSweepsTakeWhatIsPlanned) {
  const Profile profile = machine();
  PlanWatch watch(profile, model(), {}, [] { return EngineStats(); });
  for (int i = 0; i < 2000; ++i)
    ASSERT_THAT(watch.add(sweep_of(profile, 64, i % 2 == 0 ? 1.2 : 0.9)), IsEmpty());
  EXPECT_NEAR(watch.seconds() / watch.predicted(), 1.05, 1e-3);
}

TEST(PlanWatch, NamesTheResourceThatDiffersAndThenKeepsQuiet) {
  const Profile profile = machine();
  EngineStats stats;
  PlanWatch watch(profile, model(), {}, [&] { return stats; });
  const SweepRecord slow = sweep_of(profile, 64, 2);
  std::vector<std::string> said;
  double passed = 0;
  while (passed < 5 * 60) {
    passed += slow.seconds;
    stats.compute_seconds += slow.seconds;
    if (std::string text = watch.add(slow); !text.empty()) said.push_back(text);
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said.front(), AllOf(HasSubstr("took 2.00"), HasSubstr("compute")));
}

}  // namespace
}  // namespace barge
