#include "kernels/cuda/cuda_device.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "core/errors.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/row_tile.h"

namespace barge::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t kNumbers = 5000;
constexpr std::size_t kBytes = kNumbers * sizeof(std::uint32_t);

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    device_ = std::make_unique<CudaDevice>(budgets_);
    for (Buffer* buffer : {&a_, &b_}) *buffer = device_->allocate(Tier::kDevice, kBytes, "numbers");
    for (Buffer* buffer : {&in_, &out_})
      *buffer = device_->allocate(Tier::kHost, kBytes, "numbers");
    std::ranges::fill(numbers(out_), 0);
  }

  CudaDevice& device() { return *device_; }
  static std::span<std::uint32_t> numbers(const Buffer& host) {
    return {host.as<std::uint32_t>(), kNumbers};
  }
  void down(const Buffer& to, const Buffer& from) {
    device().load().copy(to.data(), Tier::kDevice, from.data(), Tier::kHost, kBytes);
  }
  void up(const Buffer& to, const Buffer& from) {
    device().store().copy(to.data(), Tier::kHost, from.data(), Tier::kDevice, kBytes);
  }
  // to = from, by a kernel.
  void compute(const Buffer& to, const Buffer& from) {
    const auto view = [](const Buffer& buffer) {
      return MatrixView{buffer.data(), DType::kF32, 1, kNumbers, kNumbers};
    };
    device().compute().submit(
        [from = view(from), to = view(to)](cudaStream_t stream) { copy_rows(stream, from, to); });
  }
  // in_ -> a_ -> b_ -> out_, on three streams. Done when the result is.
  Event round_trip() {
    down(a_, in_);
    device().compute().wait(device().load().record());
    compute(b_, a_);
    device().store().wait(device().compute().record());
    up(out_, b_);
    return device().store().record();
  }

  Budgets budgets_{1_MiB, 1_MiB, 0};
  std::unique_ptr<CudaDevice> device_;
  Buffer a_, b_, in_, out_;  // before the device goes
};

TEST_F(CudaDeviceTest, StreamsWorkInOrderAndAcrossEvents) {
  Event before;
  for (std::uint32_t round = 1; round <= 50; ++round) {
    before.wait();
    std::ranges::fill(numbers(in_), round);
    before = round_trip();
    // Nobody waits here: a_ and b_ are used again by work that waits for their readers.
    device().load().wait(before);
    before.wait();
    ASSERT_THAT(numbers(out_), Each(round));
  }
}

TEST_F(CudaDeviceTest, GivingWorkDoesNotWaitForWhatItWaitsFor) {
  Completion disk;
  std::ranges::fill(numbers(in_), 0);
  device().load().wait(disk.event());
  const Event end = round_trip();
  EXPECT_FALSE(end.done());
  std::ranges::fill(numbers(in_), 7);  // the disk's part
  disk.succeed();
  end.wait();
  EXPECT_TRUE(end.done());
  EXPECT_THAT(numbers(out_), Each(7u));
}

TEST_F(CudaDeviceTest, AFailureEndsItsStreamAndThoseThatWaitForItButNoOthers) {
  Completion disk;
  device().load().wait(disk.event());
  std::ranges::fill(numbers(in_), 7);
  const Event end = round_trip();
  disk.fail(std::make_exception_ptr(IoError("the disk is gone")));
  EXPECT_THAT([&] { end.wait(); }, ThrowsMessage<IoError>(HasSubstr("the disk is gone")));
  EXPECT_TRUE(end.done());
  EXPECT_THAT([&] { end.on_device(); }, ThrowsMessage<IoError>(HasSubstr("the disk is gone")));
  EXPECT_THAT(numbers(out_), Each(0u));
  EXPECT_EQ(device().link_traffic().down_bytes, 0u);
  EXPECT_EQ(device().link_traffic().up_bytes, 0u);
}

TEST_F(CudaDeviceTest, AStreamThatDoesNotWaitForAFailureGoesOn) {
  Completion disk;
  disk.fail(std::make_exception_ptr(IoError("the disk is gone")));
  std::ranges::fill(numbers(in_), 7);
  down(a_, in_);
  const Event loaded = device().load().record();
  device().load().wait(Completion().event());  // abandoned
  EXPECT_THROW(device().load().record().wait(), Error);
  device().store().wait(loaded);
  up(out_, a_);
  device().store().record().wait();
  EXPECT_THAT(numbers(out_), Each(7u));
}

TEST_F(CudaDeviceTest, WaitsForTheCpuAndTheCpuForIt) {
  CpuDevice cpu({.threads = 1}, budgets_);
  Completion gate;
  cpu.compute().wait(gate.event());
  cpu.compute().call([&] { std::ranges::fill(numbers(in_), 3); });
  device().load().wait(cpu.compute().record());
  const Event end = round_trip();
  std::uint32_t seen = 0;
  cpu.store().wait(end);
  cpu.store().call([&] { seen = numbers(out_).back(); });
  gate.succeed();
  cpu.store().record().wait();
  EXPECT_EQ(seen, 3u);
}

TEST_F(CudaDeviceTest, WaitsForAnotherDeviceOfItsKindOnTheHost) {
  Budgets budgets(1_MiB, 1_MiB, 0);
  CudaDevice other(budgets);
  const Buffer there = other.allocate(Tier::kDevice, kBytes, "numbers");
  const Buffer here = other.allocate(Tier::kHost, kBytes, "numbers");
  std::ranges::fill(numbers(here), 6);
  for (int round = 0; round < 20; ++round) {
    std::ranges::fill(numbers(in_), 0);
    other.load().copy(there.data(), Tier::kDevice, here.data(), Tier::kHost, kBytes);
    other.store().wait(other.load().record());
    other.store().copy(in_.data(), Tier::kHost, there.data(), Tier::kDevice, kBytes);
    device().load().wait(other.store().record());
    round_trip().wait();
    ASSERT_THAT(numbers(out_), Each(6u));
  }
}

TEST_F(CudaDeviceTest, AnEventIsDoneWhenTheDeviceIsAndNotWhenItIsSubmitted) {
  std::atomic<bool> go = false;
  device().load().submit([&](cudaStream_t stream) {
    const auto wait = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); };
    check(cudaLaunchHostFunc(stream, wait, &go), "cudaLaunchHostFunc");
  });
  const Event end = device().load().record();
  EXPECT_EQ(end.on_device().state(), end.state());
  EXPECT_FALSE(end.done());
  go = true;
  go.notify_all();
  end.wait();
  EXPECT_TRUE(end.done());
}

TEST_F(CudaDeviceTest, ACompletionThatEndsWithWorkOfTheDeviceIsWaitedForThere) {
  std::ranges::fill(numbers(in_), 9);
  Completion read;
  device().compute().wait(read.event());
  compute(b_, a_);
  device().store().wait(device().compute().record());
  up(out_, b_);
  const Event end = device().store().record();
  down(a_, in_);
  read.succeed(device().load().record());
  end.wait();
  EXPECT_THAT(numbers(out_), Each(9u));
}

TEST_F(CudaDeviceTest, CallsTheHostInOrderAndItsFailureSkipsWhatFollows) {
  std::vector<std::uint32_t> seen;
  std::ranges::fill(numbers(in_), 4);
  device().store().wait(round_trip());
  device().store().call([&] {
    seen.push_back(numbers(out_).front());
    numbers(in_)[0] = 5;
  });
  device().store().record().wait();
  EXPECT_THAT(seen, ElementsAre(4u));
  device().store().call([] { throw IoError("no more"); });
  device().store().call([&] { seen.push_back(0); });
  EXPECT_THAT([&] { device().store().record().wait(); },
              ThrowsMessage<IoError>(HasSubstr("no more")));
  EXPECT_THAT(seen, ElementsAre(4u));
}

TEST_F(CudaDeviceTest, CountsBytesAndSecondsOfCopiesEachWayAndOfKernels) {
  down(a_, in_);
  down(b_, in_);
  const Event loaded = device().load().record();
  device().store().wait(loaded);
  up(out_, b_);
  device().store().copy(a_.data(), Tier::kDevice, b_.data(), Tier::kDevice, kBytes);  // no link
  device().store().record().wait();
  compute(b_, a_);
  device().compute().record().wait();
  const LinkTraffic traffic = device().link_traffic();
  EXPECT_EQ(traffic.down_bytes, 2 * kBytes);
  EXPECT_EQ(traffic.up_bytes, kBytes);
  EXPECT_GT(traffic.down_seconds, 0);
  EXPECT_GT(traffic.up_seconds, 0);
  EXPECT_LT(traffic.down_seconds, 10);
  EXPECT_GT(device().compute_seconds(), 0);
  EXPECT_LT(device().compute_seconds(), 10);
}

TEST_F(CudaDeviceTest, UsesItsEventsAgain) {
  round_trip().wait();
  const std::size_t made = device().events_made();
  for (int round = 0; round < 1000; ++round) round_trip().wait();
  EXPECT_EQ(device().events_made(), made);
}

TEST_F(CudaDeviceTest, MakesMoreEventsWhereMoreAreHeldThanEver) {
  std::vector<Event> held;
  for (int i = 0; i < 1500; ++i) held.push_back(device().load().record());
  held.back().wait();
  for (const Event& event : held) EXPECT_TRUE(event.done());
}

TEST_F(CudaDeviceTest, LendsItsMemoryInPagesAndCountsThemByTag) {
  EXPECT_EQ(budgets_.device.used(), 2 * round_up(kBytes, kSectorBytes));
  EXPECT_EQ(budgets_.host.used(), 2 * round_up(kBytes, kSectorBytes));
  const std::size_t rest = budgets_.device.available();
  Buffer one = device().allocate(Tier::kDevice, 1, "one");
  EXPECT_EQ(one.bytes(), 4096u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.data()) % 4096, 0u);
  Buffer all = device().allocate(Tier::kDevice, rest - 4096, "rest");
  EXPECT_THAT([&] { (void)device().allocate(Tier::kDevice, 1, "more"); },
              ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("for more"), HasSubstr("--gpu-memory"))));
  std::byte* const freed = one.data();
  one = {};
  EXPECT_EQ(device().allocate(Tier::kDevice, 4096, "again").data(), freed);
}

TEST_F(CudaDeviceTest, NamesTheLargestPieceWhereItsFreeMemoryIsInPieces) {
  std::vector<Buffer> pages;
  while (budgets_.device.available() > 0)
    pages.push_back(device().allocate(Tier::kDevice, 4096, "page"));
  for (std::size_t i = 0; i < pages.size(); i += 2) pages[i] = {};
  EXPECT_THAT([&] { (void)device().allocate(Tier::kDevice, 8192, "two"); },
              ThrowsMessage<OutOfMemory>(HasSubstr("largest free piece has 4.00 KiB")));
  for (Buffer& page : pages) page = {};
  EXPECT_EQ(device().allocate(Tier::kDevice, 8192, "two").bytes(), 8192u);
}

TEST(ArenaTest, TakesTheLowestPlaceThatFitsAndJoinsNeighbours) {
  Arena arena(10 * 4096);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(arena.take(8192), i * 8192);
  EXPECT_EQ(arena.take(4096), std::nullopt);
  arena.give_back(0, 8192);
  arena.give_back(3 * 8192, 8192);
  EXPECT_EQ(arena.take(4096), 0u);
  EXPECT_EQ(arena.take(8192), 3u * 8192);
  arena.give_back(2 * 8192, 8192);
  arena.give_back(8192, 8192);  // joins 4096.. before and 16384.. behind
  EXPECT_EQ(arena.largest_free(), 5u * 4096);
  EXPECT_EQ(arena.take(5 * 4096), 4096u);
}

TEST_F(CudaDeviceTest, SaysWhatIsFreeWhenTheGpuIsTooSmall) {
  Budgets budgets(std::size_t{1} << 46, 0, 0);
  EXPECT_THAT([&] { CudaDevice device(budgets); },
              ThrowsMessage<OutOfMemory>(
                  AllOf(HasSubstr("64.0 TiB"), HasSubstr("are free"), HasSubstr("--gpu-memory"))));
}

TEST(CheckTest, NamesCallPlaceAndWhatCudaSaid) {
  EXPECT_THAT([] { check(cudaErrorInvalidValue, "cudaSomething"); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("cudaSomething"),
                                               HasSubstr("cuda_device_test.cc:"),
                                               HasSubstr("cudaErrorInvalidValue"))));
}

}  // namespace
}  // namespace barge::cuda
