#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <set>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "offload/kv_disk_slots.h"
#include "offload/kv_placement.h"
#include "offload/kv_pool.h"
#include "offload/kv_ring.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(KvPlacement, KeepsEveryShareWithinOneLayerOfASequence) {
  const PerTier<double> shares[] = {
      {0, 0.4, 0.6}, {0.33, 0.33, 0.34}, {0.05, 0.9, 0.05}, {1, 0, 0}};
  for (const auto& share : shares)
    for (const int layers : {1, 2, 7, 30}) {
      KvPlacement placement(share, layers);
      PerTier<double> placed;
      double total = 0;
      for (int sequence = 0; sequence < 40; ++sequence) {
        const auto homes = placement.choose(100);
        EXPECT_EQ(homes, placement.choose(100));
        placement.add(homes, 100);
        for (Tier tier : homes) ++placed[tier];
        total += layers;
        for (Tier tier : kTiers)
          ASSERT_LT(std::abs(placed[tier] - share[tier] * total), 1)
              << name_of(tier) << " after sequence " << sequence << " of " << layers << " layers";
      }
    }
}

TEST(KvPlacement, GivesAllSequencesTheSameLayersOfTheDeviceWhereTheLayerDecides) {
  KvPlacement placement({0.3, 0.3, 0.4}, 10, 3);
  const auto on_device = [](std::vector<Tier> homes) {
    std::replace(homes.begin(), homes.end(), Tier::kDisk, Tier::kHost);
    return homes;
  };
  const auto first = placement.choose(50);
  EXPECT_EQ(std::count(first.begin(), first.end(), Tier::kDevice), 3);
  for (std::size_t layer = 0; layer < first.size(); ++layer)
    EXPECT_EQ(placement.device_layer(layer), first[layer] == Tier::kDevice);
  PerTier<double> placed;
  for (int sequence = 0; sequence < 40; ++sequence) {
    const auto homes = placement.choose(50 + 7 * sequence);
    placement.add(homes, 50 + 7 * sequence);
    EXPECT_EQ(on_device(homes), on_device(first)) << sequence;
    for (const Tier tier : homes) placed[tier] += 50 + 7 * sequence;
  }
  EXPECT_NEAR(placed.host / (placed.host + placed.disk), 3.0 / 7, 0.01);
}

TEST(KvPlacement, SpreadsEachTierEvenlyOverTheLayers) {
  for (const int layers : {2, 7, 30}) {
    KvPlacement placement({0, 0.4, 0.6}, layers);
    std::vector<int> on_disk(static_cast<std::size_t>(layers));
    for (int sequence = 0; sequence < 25; ++sequence) {
      const auto homes = placement.choose(64);
      placement.add(homes, 64);
      for (std::size_t layer = 0; layer < homes.size(); ++layer)
        on_disk[layer] += homes[layer] == Tier::kDisk;
      const auto [least, most] = std::minmax_element(on_disk.begin(), on_disk.end());
      ASSERT_LE(*most - *least, 1);
    }
  }
}

TEST(KvPlacement, MeetsSharesByLengthAndAfterRemovals) {
  KvPlacement placement({0, 0.5, 0.5}, 4);
  std::mt19937 random(5);
  std::vector<std::pair<std::vector<Tier>, int>> live;
  for (int step = 0; step < 200; ++step) {
    const int weight = 1 + static_cast<int>(random() % 500);
    live.emplace_back(placement.choose(weight), weight);
    placement.add(live.back().first, weight);
    if (live.size() <= 10) continue;
    const auto gone = live.begin() + static_cast<std::ptrdiff_t>(random() % live.size());
    placement.remove(gone->first, gone->second);
    live.erase(gone);
  }
  double disk = 0, total = 0;
  for (const auto& [homes, weight] : live)
    for (Tier tier : homes) {
      disk += tier == Tier::kDisk ? weight : 0;
      total += weight;
    }
  EXPECT_LE(std::abs(disk - total / 2), 500);  // the largest (sequence, layer)
}

TEST(KvPlacement, RefusesSharesThatDoNotSumToOne) {
  EXPECT_THAT(
      [] {
        KvPlacement({0.5, 0.6, 0.2}, 3);
      },
      ThrowsMessage<ConfigError>(HasSubstr("sum to 1.3")));
  EXPECT_THAT(
      [] {
        KvPlacement({-0.5, 1.5, 0}, 3);
      },
      ThrowsMessage<ConfigError>(HasSubstr("-0.5")));
}

TEST(KvDiskSlots, GivesNeighboursToARunAndEverySlotOnce) {
  KvDiskSlots slots(20, 4096);
  const auto a = slots.open_run(8), b = slots.open_run(8);
  std::set<std::int64_t> taken;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(slots.take(a), i);
    EXPECT_EQ(slots.take(b), 8 + i);
  }
  for (std::int64_t i = 0; i < 16; ++i) taken.insert(i);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(taken.insert(slots.take(a)).second);
  EXPECT_THAT([&] { slots.take(b); }, ThrowsMessage<OutOfMemory>(HasSubstr("20 of 20")));
  for (const auto slot : taken) slots.give_back(slot, {});
  EXPECT_EQ(slots.held_bytes(), 0u);
  EXPECT_EQ(slots.peak_bytes(), 20u * 4096);
  const auto all = slots.open_run(20);  // free neighbours are one piece again
  for (int i = 0; i < 20; ++i) EXPECT_EQ(slots.take(all), i);
}

TEST(KvDiskSlots, TakesFromAnotherRunBeforeItSaysThatThereIsNone) {
  KvDiskSlots slots(10, 4096);
  const auto greedy = slots.open_run(10);
  std::set<std::int64_t> taken{slots.take(greedy)};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(taken.insert(slots.take(0)).second);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(taken.insert(slots.take(greedy)).second);
  EXPECT_EQ(taken.size(), 10u);
}

TEST(KvDiskSlots, ReusesASlotOnlyAfterItsLastUser) {
  KvDiskSlots slots(2, 4096);
  const auto a = slots.take(0), b = slots.take(0);
  Completion user, other;
  slots.give_back(a, {user.event()});
  slots.give_back(b, {other.event()});
  EXPECT_EQ(slots.held_bytes(), 0u);
  other.succeed();
  EXPECT_EQ(slots.take(0), b);
  user.fail(std::make_exception_ptr(IoError("disk on fire")));  // over is over
  EXPECT_EQ(slots.take(0), a);
}

class KvMemory : public testing::Test {
 protected:
  Budgets budgets_{1_MiB, 1_MiB, 1_MiB};
  CpuDevice device_{{.threads = 1}, budgets_};
};

TEST_F(KvMemory, APoolHandsOnWhatMustBeWaitedFor) {
  KvPool pool(device_, Tier::kHost, 2 * 4096, 4096);
  const auto a = pool.take(), b = pool.take();
  EXPECT_TRUE(a.after.empty());
  Completion user;
  pool.give_back(a.index, {user.event()});
  pool.give_back(b.index, {});
  EXPECT_EQ(pool.take().index, b.index);  // nobody uses it any more
  const auto again = pool.take();
  EXPECT_EQ(again.index, a.index);
  ASSERT_EQ(again.after.size(), 1u);
  EXPECT_EQ(again.after[0].state(), user.event().state());
  EXPECT_THAT([&] { pool.check(1); }, ThrowsMessage<OutOfMemory>(HasSubstr("2 of 2")));
  user.succeed();
}

TEST_F(KvMemory, ARingReusesRegionsInOrderAndAfterTheirEvents) {
  KvRing ring(device_, Tier::kHost, 5 * 4096, 4096);
  const auto a = ring.take(2), b = ring.take(2);
  ring.release(b, {});
  Event until;
  {
    Completion reader;
    until = reader.event();
    ring.release(a, {until});
    reader.succeed();
  }
  EXPECT_TRUE(ring.holds(a));
  const auto c = ring.take(3);  // wraps, and needs both regions
  EXPECT_FALSE(ring.holds(a + 1));
  EXPECT_EQ(ring.at(c + 1), ring.at(a));
  EXPECT_THAT([&] { ring.take(6); }, ThrowsMessage<OutOfMemory>(HasSubstr("needs 6 staging")));
  EXPECT_THAT([&] { ring.take(3); }, ThrowsMessage<OutOfMemory>(HasSubstr("open leases hold")));
  ring.release(c, {});
}

}  // namespace
}  // namespace barge
