#include "engine/admission_queue.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace barge {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::unique_ptr<Sequence> sequence(std::uint64_t id, int max_tokens,
                                   std::vector<TokenId> prompt = {1}) {
  auto s = std::make_unique<Sequence>();
  s->id = id;
  s->request.max_tokens = max_tokens;
  s->request.prompt = std::move(prompt);
  return s;
}

std::vector<std::uint64_t> drain(AdmissionQueue& queue) {
  std::vector<std::uint64_t> ids;
  while (queue.front() != nullptr) ids.push_back(queue.pop()->id);
  return ids;
}

TEST(AdmissionQueue, LetsThoseFirstThatRunLongest) {
  AdmissionQueue queue;
  queue.add(sequence(1, 5));
  queue.add(sequence(2, 9));
  queue.add(sequence(3, 5, std::vector<TokenId>(40, 7)));
  queue.add(sequence(4, 9));
  queue.add(sequence(5, 7));
  EXPECT_EQ(queue.size(), 5u);
  EXPECT_THAT(drain(queue), ElementsAre(2, 4, 5, 3, 1));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(AdmissionQueue, LetsPromptsThatBeginAlikeEnterTogether) {
  AdmissionQueue queue;
  queue.add(sequence(1, 5, {1, 2, 3, 4}));
  queue.add(sequence(2, 5, {9, 2, 3, 4}));
  queue.add(sequence(3, 5, {1, 2, 3, 5, 6}));
  queue.add(sequence(4, 5, {9, 2, 3, 1, 7}));
  EXPECT_THAT(drain(queue), ElementsAre(1, 3, 4, 2));
}

TEST(AdmissionQueue, LetsNobodyStarveWhileLongerOnesKeepComing) {
  AdmissionQueue queue;
  queue.add(sequence(1, 1));
  queue.add(sequence(2, 50));
  std::vector<std::uint64_t> entered;
  for (std::uint64_t id = 3; id < 30; ++id) {
    ASSERT_NE(queue.front(), nullptr);
    entered.push_back(queue.pop()->id);
    queue.add(sequence(id, 100));
  }
  EXPECT_THAT(std::vector(entered.begin(), entered.begin() + 2), ElementsAre(2, 1));
}

TEST(AdmissionQueue, ParksUntilTheOwnerHasComeSoFarOrIsGone) {
  AdmissionQueue queue;
  for (std::uint64_t id = 1; id <= 4; ++id) queue.add(sequence(id, 100 - static_cast<int>(id)));
  for (const auto& [owner, positions] : {std::pair{70, 30}, std::pair{70, 20}, std::pair{80, 10}}) {
    ASSERT_NE(queue.front(), nullptr);
    queue.park(static_cast<std::uint64_t>(owner), positions);
  }
  EXPECT_EQ(queue.size(), 4u);
  EXPECT_THAT(drain(queue), ElementsAre(4));
  EXPECT_EQ(queue.front(), nullptr);
  queue.unpark([](std::uint64_t owner) { return owner == 70 ? 20 : 9; });
  EXPECT_THAT(drain(queue), ElementsAre(2));
  queue.unpark([](std::uint64_t owner) { return owner == 70 ? 29 : -1; });
  EXPECT_THAT(drain(queue), ElementsAre(3));
  EXPECT_EQ(queue.take(1)->id, 1u);
  EXPECT_EQ(queue.size(), 0u);
}

std::unique_ptr<Sequence> urgent(std::uint64_t id, int max_tokens) {
  auto s = sequence(id, max_tokens);
  s->request.urgent = true;
  return s;
}

TEST(AdmissionQueue, LetsUrgentOnesFirstInTheOrderOfArrival) {
  AdmissionQueue queue;
  queue.add(sequence(1, 50));
  queue.add(urgent(2, 5));
  queue.add(sequence(3, 60));
  queue.add(urgent(4, 9));
  EXPECT_THAT(drain(queue), ElementsAre(2, 4, 3, 1));
}

TEST(AdmissionQueue, LetsUrgentOnesShutNobodyOut) {
  AdmissionQueue queue;
  queue.add(sequence(100, 1));
  queue.add(sequence(101, 2));
  for (std::uint64_t id = 1; id <= 8; ++id) queue.add(urgent(id, 5));
  EXPECT_THAT(drain(queue), ElementsAre(1, 2, 3, 101, 4, 5, 6, 100, 7, 8));
}

TEST(AdmissionQueue, GivesPlacesThatAreReservedToUrgentOnesOnly) {
  AdmissionQueue queue;
  queue.add(sequence(1, 50));
  EXPECT_EQ(queue.front(AdmissionQueue::Place::kUrgentOnes), nullptr);
  for (std::uint64_t id = 2; id <= 7; ++id) queue.add(urgent(id, 5));
  std::vector<std::uint64_t> ids;
  while (queue.front(AdmissionQueue::Place::kUrgentOnes)) ids.push_back(queue.pop()->id);
  EXPECT_THAT(ids, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(drain(queue), ElementsAre(1));
}

TEST(AdmissionQueue, ParksUrgentOnesAmongTheirOwn) {
  AdmissionQueue queue;
  queue.add(sequence(1, 50));
  queue.add(urgent(2, 5));
  queue.add(urgent(3, 5));
  ASSERT_EQ(queue.front()->id, 2u);
  queue.park(70, 30);
  EXPECT_EQ(queue.front()->id, 3u);
  queue.unpark([](std::uint64_t) { return 30; });
  EXPECT_EQ(queue.take(3)->id, 3u);
  EXPECT_THAT(drain(queue), ElementsAre(2, 1));
}

TEST(AdmissionQueue, GivesOutWhoIsAskedForAndAllWhoAreLeft) {
  AdmissionQueue queue;
  for (std::uint64_t id = 1; id <= 5; ++id) queue.add(sequence(id, static_cast<int>(id)));
  ASSERT_EQ(queue.front()->id, 5u);
  queue.park(9, 1);
  EXPECT_EQ(queue.take(3)->id, 3u);
  EXPECT_EQ(queue.take(3), nullptr);
  std::vector<std::uint64_t> left;
  for (const auto& s : queue.take_all()) left.push_back(s->id);
  EXPECT_THAT(left, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(drain(queue), IsEmpty());
}

}  // namespace
}  // namespace barge
