#include "core/memory_budget.h"

#include <gmock/gmock.h>

#include <vector>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MemoryBudget, GivesBytesBackWhenReservationsEndAndRemembersThePeak) {
  MemoryBudget budget(Tier::kHost, 100, "--cpu-memory");
  {
    const auto a = budget.reserve(60, "weights");
    auto b = budget.reserve(40, "kv cache");
    const auto moved = std::move(b);
    EXPECT_EQ(budget.available(), 0u);
    EXPECT_EQ(budget.by_tag().at("weights"), 60u);
  }
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(budget.peak(), 100u);
}

TEST(MemoryBudget, NamesWhatWasWantedWhatIsFreeAndWhoHasTheRest) {
  MemoryBudget budget(Tier::kHost, 3_MiB, "--cpu-memory");
  const auto held = budget.reserve(2_MiB, "weights");
  EXPECT_THAT(
      [&] { (void)budget.reserve(2_MiB, "kv cache"); },
      ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("2.00 MiB of host space for kv cache"),
                                       HasSubstr("1.00 MiB of 3.00 MiB are free"),
                                       HasSubstr("weights 2.00 MiB"), HasSubstr("--cpu-memory"))));
  EXPECT_EQ(budget.used(), 2_MiB);
}

TEST(MemoryBudget, MovingAssignmentReleasesWhatWasHeldBefore) {
  MemoryBudget budget(Tier::kHost, 100, "--cpu-memory");
  auto held = budget.reserve(60, "a");
  held = budget.reserve(30, "b");
  EXPECT_EQ(budget.used(), 30u);
}

TEST(HostMemory, CountsWhatIsTouched) {
  const std::size_t before = resident_bytes();
  std::vector<char> touched(32_MiB, 1);
  EXPECT_GE(resident_bytes(), before + 30_MiB);
  EXPECT_GE(peak_resident_bytes(), before + 30_MiB);
  EXPECT_GT(usable_host_memory(), 0u);
  EXPECT_EQ(touched.back(), 1);
}

}  // namespace
}  // namespace barge
