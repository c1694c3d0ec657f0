#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "offload/disk_queue.h"
#include "tests/offload/fake_disk.h"
#include "tests/offload/kv_harness.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kPerPage = 6;
const KvFormat kFormat{Encoding::kF32, 2, 96};        // records of 1536 bytes
constexpr std::size_t kRecord = 1536, kPage = 12288;  // 6 records, and a gap

KvHarness::Config config(PerTier<double> share, double link = 0) {
  return {link,
          DiskQueue::Io::kPread,
          {.format = kFormat,
           .layers = 3,
           .page_positions = kPerPage,
           .share = share,
           .capacity_bytes = {40 * kPage, 40 * kPage, 60 * kPage},
           .staging_bytes = 30 * kPage,
           .host_staging_bytes = 30 * kPage}};
}

void expect_all_right(KvHarness& kv) {
  kv.finish();
  EXPECT_EQ(kv.wrong, 0u) << kv.first_wrong;
  EXPECT_GT(kv.compared, 0u);
}

TEST(KvStore, RoundsPagesUpToSectorsAndCapacityDownToPages) {
  auto given = config({0, 1, 0});
  given.store.capacity_bytes = {0, 5 * kPage - 1, kPage};
  KvHarness kv(given);
  EXPECT_EQ(kv.store->capacity().host, 4 * kPage);
  EXPECT_EQ(kv.store->capacity().disk, kPage);
  EXPECT_EQ(kv.budgets.disk.used(), kPage);
}

TEST(KvStore, CountsDeviceMemoryAsHostMemoryWhereTheyAreOne) {
  KvHarness kv(config({1, 0, 0}));
  EXPECT_EQ(kv.store->capacity().device, 0u);
  EXPECT_EQ(kv.store->capacity().host, 80 * kPage);
  EXPECT_EQ(kv.store->place(9), KvStore::Placement(3, Tier::kHost));
}

TEST(KvStore, HoldsWhatItPromisesAdmission) {
  for (const double link : {0., 4e9}) {
    KvHarness kv(
        config(link > 0 ? PerTier<double>{0.4, 0.3, 0.3} : PerTier<double>{0, 0.5, 0.5}, link));
    for (int positions : {1, 5, 6, 7, 11, 12, 13}) {
      const auto id = kv.add(positions);
      kv.sweep({{kv.span(id, positions)}}, 0);
      const auto held = kv.store->bytes_held();
      const auto& placement = kv.live.at(id).placement;
      auto promised = kv.store->bytes(placement, positions);
      const auto at_rest = kv.store->bytes_at_rest(placement, positions);
      if (positions % kPerPage == 0)  // no tail now, but there was one on the way
        for (Tier home : placement) promised.host -= home == Tier::kDisk ? kPage : 0;
      for (Tier tier : kTiers) {
        EXPECT_EQ(held[tier], promised[tier]) << positions << " positions, " << name_of(tier);
        EXPECT_EQ(held[tier], at_rest[tier]) << positions << " positions, " << name_of(tier);
      }
      kv.remove(id);
    }
  }
}

TEST(KvStore, MeetsTheSharesInBytes) {
  const PerTier<double> share{0.2, 0.3, 0.5};
  KvHarness kv(config(share, 4e9));
  std::vector<KvStore::Span> spans;
  for (int i = 0; i < 9; ++i) spans.push_back(kv.span(kv.add(2 * kPerPage), 2 * kPerPage));
  for (std::size_t i = 0; i < spans.size(); i += 3)
    kv.sweep({{spans.begin() + static_cast<int>(i), spans.begin() + static_cast<int>(i) + 3}}, 1);
  const auto held = kv.store->bytes_held();
  const double total = 9 * 3 * 2 * kPage, one = 2 * kPage;
  for (Tier tier : kTiers)
    EXPECT_LE(std::abs(static_cast<double>(held[tier]) - share[tier] * total), one)
        << name_of(tier);
}

TEST(KvStore, SendsOnlyNewRecordsUpTheLink) {
  KvHarness kv(config({0, 0.5, 0.5}, 4e9));
  const auto id = kv.add(40);
  for (int rows : {8, 1, 7}) kv.sweep({{kv.span(id, rows)}}, 0);  // fills and crosses pages
  expect_all_right(kv);
  EXPECT_EQ(kv.store->traffic().link_up_bytes, 3 * 16 * kRecord);
  EXPECT_EQ(kv.device.link_traffic().up_bytes, 3 * 16 * kRecord);
}

TEST(KvStore, WritesDiskPagesOnceAndReadsThemInOneRequest) {
  auto given = config({0, 0, 1});
  given.store.staging_bytes = 3 * 3 * 7 * kPage;  // three sweeps: where the ring wraps are two
  KvHarness kv(given);
  const auto id = kv.add(60);
  kv.sweep({{kv.span(id, 7 * kPerPage + 2)}}, 0);
  kv.await_writes(3);
  kv.store->swap_out(id);
  kv.store->swap_in(id);  // waits for the tails' writes, which end after those of full pages
  kv.sweep({{kv.span(id, 0)}}, 0);
  kv.finish();
  const auto before = kv.disk->traffic();
  EXPECT_EQ(before.written_bytes, 3 * (7 + 1) * kPage);  // with the swapped tails
  EXPECT_EQ(before.writes, 3u * 2);
  kv.sweep({{kv.span(id, 1)}}, 0);
  expect_all_right(kv);
  EXPECT_EQ(kv.disk->traffic().reads - before.reads, 3u);
  EXPECT_EQ(kv.disk->traffic().read_bytes - before.read_bytes, 3 * 7 * kPage);
  EXPECT_EQ(kv.disk->traffic().written_bytes, before.written_bytes);
}

TEST(KvStore, ReadsPagesFromMemoryUntilTheyAreWritten) {
  for (const double link : {0., 4e9}) {
    FakeDisk fake(60 * kPage);
    KvHarness kv(config({0, 0, 1}, link), fake.backend());
    const auto id = kv.add(30);
    fake.close();
    kv.sweep({{kv.span(id, 13)}}, 0);
    const auto child = kv.fork(id, 9, 20);
    for (int i = 0; i < 2; ++i) kv.sweep({{kv.span(id, 1)}, {kv.span(child, 1)}}, 1);
    expect_all_right(kv);  // although the disk has done nothing so far
    EXPECT_EQ(kv.store->traffic().disk_read_bytes, 0u);
    fake.open();
    kv.store->swap_out(id);
    kv.store->swap_in(id);
    kv.sweep({{kv.span(id, 1)}, {kv.span(child, 1)}}, 1);
    expect_all_right(kv);
    EXPECT_GT(kv.store->traffic().disk_read_bytes, 0u);
  }
}

TEST(KvStore, ForksIntoMemoryOnlyWhenWhoeverHadItIsDone) {
  for (const double link : {0., 4e9}) {
    FakeDisk fake(60 * kPage);
    auto given = config({0, 0, 1}, link);
    given.store.capacity_bytes.host = 6 * kPage;  // the tails of two sequences
    KvHarness kv(given, fake.backend());
    const auto parent = kv.add(30), other = kv.add(kPerPage - 1);
    fake.close();
    kv.sweep({{kv.span(parent, 13)}}, 0);
    kv.device.compute().call([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    kv.sweep({{kv.span(other, 4)}}, 0);
    kv.remove(other);  // before its records are there
    const auto child = kv.fork(parent, 9, 20);
    for (int i = 0; i < 2; ++i) {
      kv.sweep({{kv.span(child, 1)}}, 0);
      expect_all_right(kv);
    }
    fake.open();
  }
}

TEST(KvStore, KeepsStagedPagesUntilTheyAreWritten) {
  FakeDisk fake(60 * kPage);  // copies when a request ends
  auto given = config({0, 0, 1});
  given.store.staging_bytes = 2 * kPage;
  KvHarness kv(given, fake.backend());
  for (int round = 0; round < 5; ++round) {
    const auto a = kv.add(kPerPage), b = kv.add(2 * kPerPage);
    fake.close();
    kv.step(0, {kv.span(a, kPerPage)});
    kv.finish();
    std::thread disk([&] { fake.open(); });
    kv.step(0, {kv.span(b, 2 * kPerPage)});  // wants all staging, so it waits for the disk
    disk.join();
    kv.step(0, {kv.span(a, 0)});
    kv.finish();
  }
  expect_all_right(kv);
}

TEST(KvStore, SharesPagesUntilOneOwnerAppends) {
  KvHarness kv(config({0, 1, 0}));
  const auto parent = kv.add(30);
  kv.sweep({{kv.span(parent, 9)}}, 0);
  const auto child = kv.fork(parent, 8, 30);
  EXPECT_EQ(kv.store->bytes_held().host, 3 * 2 * kPage);
  kv.sweep({{kv.span(parent, 1), kv.span(child, 1)}}, 0);
  EXPECT_EQ(kv.store->bytes_held().host, 3 * 3 * kPage);  // the tails differ now
  kv.remove(parent);
  EXPECT_EQ(kv.store->bytes_held().host, 3 * 2 * kPage);
  kv.sweep({{kv.span(child, 1)}}, 0);
  expect_all_right(kv);
}

TEST(KvStore, NamesNumbersWhenAPoolIsFull) {
  auto given = config({0, 1, 0});
  given.store.capacity_bytes = {0, 3 * kPage, 0};
  KvHarness kv(given);
  const auto id = kv.add(60);
  EXPECT_THAT([&] { kv.step(0, {kv.span(id, 4 * kPerPage)}); },
              ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("needs 4 more pages of 12.0 KiB in host"),
                                               HasSubstr("0 of 3 are in use"))));
  kv.live.at(id).keys[0].clear();
  kv.step(0, {kv.span(id, 3 * kPerPage)});  // nothing was lost
  kv.step(0, {kv.span(id, 0)});
  expect_all_right(kv);
}

TEST(KvStore, NamesNumbersWhenTheDiskIsFull) {
  auto given = config({0, 0, 1});
  given.store.capacity_bytes.disk = 2 * kPage;
  KvHarness kv(given);
  const auto id = kv.add(60);
  EXPECT_THAT([&] { kv.step(0, {kv.span(id, 3 * kPerPage)}); },
              ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("needs 3 more pages"),
                                               HasSubstr("on disk, where 0 of 2 are in use"))));
}

TEST(KvStore, NamesNumbersWhenStagingCanNeverHoldALease) {
  auto given = config({0, 0, 1});
  given.store.staging_bytes = 3 * kPage;
  KvHarness kv(given);
  const auto a = kv.add(60), b = kv.add(60);
  EXPECT_THAT([&] { kv.step(0, {kv.span(a, 4 * kPerPage)}); },
              ThrowsMessage<OutOfMemory>(
                  AllOf(HasSubstr("needs 4 staging pages"), HasSubstr("there are 3"))));
  kv.live.at(a).keys[0].clear();
  const std::vector<KvStore::Span> two{kv.span(a, 2 * kPerPage)};
  EXPECT_EQ(kv.store->staging_needed(two), 2 * kPage);
  auto lease = kv.store->open(0, two);
  EXPECT_THAT([&] { (void)kv.store->open(0, std::vector{kv.span(b, 2 * kPerPage)}); },
              ThrowsMessage<OutOfMemory>(HasSubstr("open leases hold 2")));
  kv.store->close(std::move(lease), {});
}

TEST(KvStore, RefusesSpansThatDoNotContinueTheSequence) {
  KvHarness kv(config({0, 1, 0}));
  const auto id = kv.add(8);
  const auto open = [&](KvStore::Span span) {
    return [&kv, span] { (void)kv.store->open(1, std::vector{span}); };
  };
  EXPECT_THAT(open({id, 3, 1}), ThrowsMessage<Error>(HasSubstr("it has 0 positions")));
  EXPECT_THAT(open({id, 0, 9}), ThrowsMessage<Error>(HasSubstr("it was added for 8 positions")));
  EXPECT_THAT(open({id + 1, 0, 1}), ThrowsMessage<Error>(HasSubstr("none of that number")));
  EXPECT_THAT([&] { (void)kv.store->open(3, {}); }, ThrowsMessage<Error>(HasSubstr("layer 3")));
  auto lease = kv.store->open(1, std::vector{KvStore::Span{id, 0, 2}});
  EXPECT_THAT(open({id, 2, 1}), ThrowsMessage<Error>(HasSubstr("still open")));
  EXPECT_THAT([&] { kv.remove(id); }, ThrowsMessage<Error>(HasSubstr("still open")));
  kv.store->close(std::move(lease), {});
}

TEST(KvStoreFaults, AFailedReadFailsTheLeaseThatWaitsForIt) {
  for (const double link : {0., 4e9}) {
    FakeDisk fake(60 * kPage);
    fake.done_of = [](const DiskPiece& piece) {
      return piece.write ? static_cast<std::int64_t>(piece.bytes) : -EIO;
    };
    KvHarness kv(config({0, 0, 1}, link), fake.backend());
    const auto id = kv.add(30);
    kv.sweep({{kv.span(id, 13)}}, 0);
    kv.store->swap_out(id);
    kv.store->swap_in(id);  // the tails' reads fail
    auto lease = kv.store->open(0, std::vector{kv.span(id, 1)});
    EXPECT_THAT([&] { lease.ready.wait(); },
                ThrowsMessage<IoError>(
                    AllOf(HasSubstr("cannot read"), HasSubstr(kv.directory.path().string()))));
    kv.store->close(std::move(lease), {});
  }
}

TEST(KvStoreFaults, AFailedWriteIsToldByWhateverComesNext) {
  for (const bool remove : {false, true}) {
    FakeDisk fake(60 * kPage);
    fake.done_of = [](const DiskPiece& piece) {
      return piece.write ? -ENOSPC : static_cast<std::int64_t>(piece.bytes);
    };
    KvHarness kv(config({0, 0, 1}), fake.backend());
    const auto id = kv.add(30), other = kv.add(30);
    fake.close();
    kv.step(0, {kv.span(id, 13)});
    kv.finish();
    fake.open();
    // The write ends by itself; all that is asked for here is that nobody misses it.
    const auto says_so = ThrowsMessage<IoError>(
        AllOf(HasSubstr("cannot write"), HasSubstr("No space left on device")));
    if (remove)
      EXPECT_THAT(
          [&] {
            while (true) kv.store->remove(kv.store->add({3, Tier::kHost}, 1));
          },
          says_so);
    else
      EXPECT_THAT(
          [&] {
            while (true) kv.step(1, {kv.span(other, 0)});
          },
          says_so);
    EXPECT_THAT([&] { (void)kv.store->open(0, std::vector{kv.span(id, 1)}); }, says_so);
    kv.remove(id);  // told once, it lets go
  }
}

}  // namespace
}  // namespace barge
