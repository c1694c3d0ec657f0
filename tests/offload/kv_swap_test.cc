// Whole sequences on their way to disk and back.
#include <gmock/gmock.h>

#include "offload/disk_queue.h"
#include "tests/offload/kv_harness.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t kPage = 12288;  // 6 records of 1536 bytes, and a gap

// Three layers; all disk space is for swapping.
KvHarness::Config config(PerTier<double> share, double link) {
  return {link,
          DiskQueue::Io::kPread,
          {.format = {Encoding::kF32, 2, 96},
           .layers = 3,
           .page_positions = 6,
           .share = share,
           .capacity_bytes = {40 * kPage, 40 * kPage, 0},
           .swap_bytes = 12 * kPage,
           .staging_bytes = 30 * kPage,
           .host_staging_bytes = 2 * kPage}};  // fewer than a layer's pages
}

void expect_all_right(KvHarness& kv) {
  kv.finish();
  EXPECT_EQ(kv.wrong, 0u) << kv.first_wrong;
  EXPECT_GT(kv.compared, 0u);
}

TEST(KvSwap, NeedsNoPagesAtHomeOnDisk) {
  for (const double link : {0., 4e9})
    for (const PerTier<double> share : {PerTier<double>{1, 0, 0}, PerTier<double>{0.5, 0.5, 0}}) {
      KvHarness kv(config(share, link));
      EXPECT_EQ(kv.store->capacity().disk, 0u);
      EXPECT_EQ(kv.budgets.disk.used(), 12 * kPage);
      const auto id = kv.add(30), other = kv.add(30);
      kv.sweep({{kv.span(id, 20)}, {kv.span(other, 1)}}, 0);
      kv.store->swap_out(id);
      EXPECT_EQ(kv.store->bytes_held().disk, 3 * 4 * kPage);
      kv.sweep({{kv.span(other, 1)}}, 0);
      kv.store->swap_in(id);
      kv.sweep({{kv.span(id, 1), kv.span(other, 1)}}, 0);
      expect_all_right(kv);
      EXPECT_EQ(kv.store->bytes_held().disk, 0u);
    }
}

TEST(KvSwap, HoldsNoMemoryForWhatIsOut) {
  auto given = config({0.4, 0.3, 0.3}, 4e9);
  given.store.capacity_bytes.disk = 12 * kPage;
  given.store.host_staging_bytes = 30 * kPage;
  KvHarness kv(given);
  const auto id = kv.add(30);
  kv.sweep({{kv.span(id, 20)}}, 0);
  const auto before = kv.store->bytes_held();
  kv.store->swap_out(id);
  const auto out = kv.store->bytes_held();
  EXPECT_EQ(out.device, 0u);
  EXPECT_EQ(out.host, 0u);
  EXPECT_EQ(out.disk, before.device + before.host + before.disk);
  EXPECT_THAT([&] { kv.step(0, {kv.span(id, 1)}); },
              ThrowsMessage<Error>(HasSubstr("it is swapped out")));
  kv.store->swap_in(id);
  for (Tier tier : kTiers) EXPECT_EQ(kv.store->bytes_held()[tier], before[tier]) << name_of(tier);
  kv.sweep({{kv.span(id, 1)}}, 0);
  expect_all_right(kv);
}

TEST(KvSwap, NamesPagesWantedAndHadAndChangesNothingWhereTheDiskIsFull) {
  KvHarness kv(config({0, 1, 0}, 0));
  const auto id = kv.add(30), other = kv.add(30);
  kv.sweep({{kv.span(id, 20)}, {kv.span(other, 1)}}, 0);
  kv.store->swap_out(id);
  EXPECT_THAT([&] { kv.store->swap_out(other); },
              ThrowsMessage<OutOfMemory>(testing::AllOf(HasSubstr("needs 3 more pages"),
                                                        HasSubstr("where 12 of 12 are in use"))));
  kv.sweep({{kv.span(other, 1)}}, 0);
  kv.store->remove(id);
  kv.live.erase(id);
  EXPECT_EQ(kv.store->bytes_held().disk, 0u);
  expect_all_right(kv);
}

}  // namespace
}  // namespace barge
