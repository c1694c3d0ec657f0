// Leases whose spans the host attends to, beside a discrete device: pages in place, no link.
#include <gmock/gmock.h>

#include "core/errors.h"
#include "offload/disk_queue.h"
#include "tests/offload/fake_disk.h"
#include "tests/offload/kv_harness.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kPerPage = 6;
constexpr std::size_t kRecord = 1536, kPage = 12288;  // 6 records, and a gap

KvHarness::Config config(PerTier<double> share, int device_layers = 0) {
  return {4e9,
          DiskQueue::Io::kPread,
          {.format = {Encoding::kF32, 2, 96},
           .layers = 3,
           .page_positions = kPerPage,
           .share = share,
           .capacity_bytes = {40 * kPage, 40 * kPage, 60 * kPage},
           .staging_bytes = 30 * kPage,
           .host_staging_bytes = 30 * kPage,
           .device_layers = device_layers},
          /*host_attends=*/true};
}

void expect_all_right(KvHarness& kv) {
  kv.finish();
  EXPECT_EQ(kv.wrong, 0u) << kv.first_wrong;
  EXPECT_GT(kv.compared, 0u);
}

KvStore::Span generated(const KvHarness& kv, KvHarness::Id id, int rows = 1) {
  KvStore::Span span = kv.span(id, rows);
  span.generated = true;
  return span;
}

TEST(KvHostAttention, SendsOnlyPromptsOverTheLink) {
  for (const PerTier<double> share : {PerTier<double>{0, 1, 0}, PerTier<double>{0, 0.4, 0.6}}) {
    KvHarness kv(config(share));
    const auto id = kv.add(60);
    kv.sweep({{kv.span(id, 8)}}, 0);
    kv.finish();
    const auto before = kv.store->traffic();
    EXPECT_EQ(before.link_up_bytes, 3 * 8 * kRecord);
    EXPECT_EQ(before.link_down_bytes, 0u);  // a prompt's first chunk finds nothing
    for (int i = 0; i < 20; ++i) kv.sweep({{generated(kv, id)}}, 0);
    expect_all_right(kv);
    EXPECT_EQ(kv.store->traffic().link_up_bytes, before.link_up_bytes);
    EXPECT_EQ(kv.store->traffic().link_down_bytes, 0u);
  }
}

TEST(KvHostAttention, TakesStagingForWhatTheDeviceAttendsToOnly) {
  KvHarness kv(config({0, 0.5, 0.5}));
  const auto id = kv.add(60);
  kv.sweep({{kv.span(id, 5 * kPerPage)}}, 0);
  EXPECT_EQ(kv.store->staging_needed(std::vector{kv.span(id, 1)}), 6 * kPage);
  // On disk are five whole pages; they pass through host memory.
  EXPECT_EQ(kv.store->staging_needed(std::vector{generated(kv, id)}), 5 * kPage);
  KvHarness in_memory(config({0, 1, 0}));
  const auto other = in_memory.add(60);
  in_memory.sweep({{in_memory.span(other, 5 * kPerPage)}}, 0);
  EXPECT_EQ(in_memory.store->staging_needed(std::vector{generated(in_memory, other)}), 0u);
}

TEST(KvHostAttention, ReadsAPromptOnlyWhenItsLastRecordsHaveComeHome) {
  KvHarness kv(config({0, 1, 0}));
  for (int round = 0; round < 20; ++round) {  // nothing waits between the two
    const auto id = kv.add(40);
    kv.sweep({{kv.span(id, 13)}}, 0);
    kv.sweep({{generated(kv, id)}}, 0);
    kv.sweep({{kv.span(id, 9)}}, 0);  // and the device reads what the host wrote
    kv.sweep({{generated(kv, id)}}, 0);
    kv.remove(id);
  }
  expect_all_right(kv);
}

TEST(KvHostAttention, KeepsTheDevicesLayersToTheDevice) {
  KvHarness kv(config({1.0 / 3, 2.0 / 3, 0}, 1));
  int by_host = 0;
  for (int layer = 0; layer < 3; ++layer) by_host += kv.store->attends_on_host(layer);
  EXPECT_EQ(by_host, 2);
  const auto id = kv.add(30);
  kv.sweep({{kv.span(id, 7)}}, 0);
  for (int i = 0; i < 9; ++i) kv.sweep({{generated(kv, id)}}, 0);
  expect_all_right(kv);
  EXPECT_EQ(kv.store->bytes_held().device, 3 * kPage);
}

TEST(KvHostAttention, ReadsPagesFromMemoryUntilTheyAreWritten) {
  FakeDisk fake(60 * kPage);
  KvHarness kv(config({0, 0, 1}), fake.backend());
  const auto id = kv.add(40);
  fake.close();
  kv.sweep({{kv.span(id, 13)}}, 0);
  for (int i = 0; i < 2; ++i) kv.sweep({{generated(kv, id)}}, 0);
  expect_all_right(kv);  // although the disk has done nothing so far
  EXPECT_EQ(kv.store->traffic().disk_read_bytes, 0u);
  fake.open();
  kv.store->swap_out(id);
  kv.store->swap_in(id);
  kv.sweep({{generated(kv, id)}}, 0);
  expect_all_right(kv);
  EXPECT_GT(kv.store->traffic().disk_read_bytes, 0u);
}

TEST(KvHostAttention, RefusesALeaseForBothSides) {
  KvHarness kv(config({0, 1, 0}));
  const auto a = kv.add(9), b = kv.add(9);
  EXPECT_THAT(
      [&] {
        (void)kv.store->open(0, std::vector{kv.span(a, 3), generated(kv, b)});
      },
      ThrowsMessage<Error>(HasSubstr("the host attends to some spans")));
  const auto on_device = kv.store->add(KvStore::Placement(3, Tier::kDevice), 9);
  EXPECT_THAT(
      [&] {
        (void)kv.store->open(0, std::vector{KvStore::Span{on_device, 0, 1, true}});
      },
      ThrowsMessage<Error>(HasSubstr("at home on the device")));
}

TEST(KvHostAttention, AFailedReadFailsTheLeaseThatWaitsForIt) {
  FakeDisk fake(60 * kPage);
  fake.done_of = [](const DiskPiece& piece) {
    return piece.write ? static_cast<std::int64_t>(piece.bytes) : -EIO;
  };
  KvHarness kv(config({0, 0, 1}), fake.backend());
  const auto id = kv.add(30);
  kv.sweep({{kv.span(id, 13)}}, 0);
  kv.store->swap_out(id);
  kv.store->swap_in(id);
  auto lease = kv.store->open(0, std::vector{generated(kv, id)});
  EXPECT_THAT([&] { lease.ready.wait(); }, ThrowsMessage<IoError>(HasSubstr("cannot read")));
  kv.store->close(std::move(lease), {});
}

TEST(KvHostAttention, AFailureOfTheHostFailsTheNextLeaseOfTheDeviceEvenIfItIsOver) {
  KvHarness kv(config({0, 1, 0}));
  const auto id = kv.add(30);
  kv.sweep({{kv.span(id, 13)}}, 0);
  auto lease = kv.store->open(0, std::vector{generated(kv, id)});
  kv.host.compute().call([] { throw Error("the host lost count"); });
  const Event computed = kv.host.compute().record();
  EXPECT_THROW(computed.wait(), Error);
  kv.store->close(std::move(lease), computed);
  auto next = kv.store->open(0, std::vector{KvStore::Span{id, 14, 1}});
  EXPECT_THAT([&] { next.ready.wait(); }, ThrowsMessage<Error>(HasSubstr("lost count")));
  kv.store->close(std::move(next), {});
}

}  // namespace
}  // namespace barge
