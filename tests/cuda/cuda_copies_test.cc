// Small copies of a stream, which become launches. How many is counted on the emulation only; the
// bytes must be right anywhere.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cuda/cuda_device.h"
#ifdef BARGE_CUDA_EMULATED
#include "emulation.h"
#endif

namespace barge::cuda {
namespace {

constexpr std::size_t kPage = 1040;  // bytes: some pieces whole, one not
constexpr std::size_t kPages = 100;
constexpr std::size_t kBytes = kPage * kPages;

class CudaCopiesTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    make_device();
  }
  ~CudaCopiesTest() override {
    release();
#ifdef BARGE_CUDA_EMULATED
    cuda_emulation::device_model() = {};
#endif
  }

  void make_device() {
    release();
    device_ = std::make_unique<CudaDevice>(budgets_);
    for (Buffer* buffer : {&a_, &b_}) *buffer = device_->allocate(Tier::kDevice, kBytes, "pages");
    for (Buffer* buffer : {&in_, &out_}) *buffer = device_->allocate(Tier::kHost, kBytes, "pages");
    fill(1);
    std::memset(out_.data(), 0, kBytes);
    reset_counts();
  }
  void release() {
    for (Buffer* buffer : {&a_, &b_, &in_, &out_}) *buffer = {};
    device_.reset();
  }
  void fill(std::uint32_t first) {
    for (std::size_t i = 0; i < kBytes / 4; ++i)
      in_.as<std::uint32_t>()[i] = first + static_cast<std::uint32_t>(i);
  }

  CudaStream& load() { return device_->load(); }
  CudaStream& store() { return device_->store(); }
  void down(std::size_t to, std::size_t from, std::size_t bytes) {
    load().copy(a_.data() + to, Tier::kDevice, in_.data() + from, Tier::kHost, bytes);
  }
  void down_page(std::size_t to, std::size_t from) { down(to * kPage, from * kPage, kPage); }
  void up_page(std::size_t to, std::size_t from) {
    store().copy(out_.data() + to * kPage, Tier::kHost, a_.data() + from * kPage, Tier::kDevice,
                 kPage);
  }
  // All of a_, in one large piece that no kernel copies.
  std::vector<std::byte> fetch() {
    store().wait(load().record());
    std::vector<std::byte> all(kBytes);
    store().copy(out_.data(), Tier::kHost, a_.data(), Tier::kDevice, kBytes - 8);
    store().copy(out_.data() + kBytes - 8, Tier::kHost, a_.data() + kBytes - 8, Tier::kDevice, 8);
    store().record().wait();
    std::memcpy(all.data(), out_.data(), kBytes);
    return all;
  }
  bool equal(const std::byte* a, const std::byte* b, std::size_t bytes) {
    return std::memcmp(a, b, bytes) == 0;
  }

#ifdef BARGE_CUDA_EMULATED
  void reset_counts() { cuda_emulation::reset_counters(); }
  void expect_calls(std::uint64_t launches, std::uint64_t copies) {
    EXPECT_EQ(cuda_emulation::count(cuda_emulation::Call::kLaunch), launches);
    EXPECT_EQ(cuda_emulation::count(cuda_emulation::Call::kCopy), copies);
  }
#else
  void reset_counts() {}
  void expect_calls(std::uint64_t, std::uint64_t) {}
#endif

  Budgets budgets_{1_MiB, 1_MiB, 0};
  std::unique_ptr<CudaDevice> device_;
  Buffer a_, b_, in_, out_;
};

TEST_F(CudaCopiesTest, AHundredPagesAreOneLaunchEachWay) {
  for (std::size_t i = 0; i < kPages; ++i) down_page(i, i * 37 % kPages);
  store().wait(load().record());
  for (std::size_t i = 0; i < kPages; ++i) up_page(i * 37 % kPages, i);
  store().record().wait();
  EXPECT_TRUE(equal(out_.data(), in_.data(), kBytes));
  expect_calls(2, 0);
  const LinkTraffic traffic = device_->link_traffic();
  EXPECT_EQ(traffic.down_bytes, kBytes);
  EXPECT_EQ(traffic.up_bytes, kBytes);
  EXPECT_GT(traffic.down_seconds, 0);
  EXPECT_GT(traffic.up_seconds, 0);
}

TEST_F(CudaCopiesTest, MoreThanALaunchTakesAreSeveral) {
  constexpr std::size_t kPiece = 16, kCount = 2 * kCopyRangesOfALaunch + 1;
  for (std::size_t i = 0; i < kCount; ++i) down(i * kPiece, (kCount - 1 - i) * kPiece, kPiece);
  load().record().wait();
  expect_calls(2, 1);  // the last one is alone
  const auto got = fetch();
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_TRUE(equal(got.data() + i * kPiece, in_.data() + (kCount - 1 - i) * kPiece, kPiece))
        << i;
}

TEST_F(CudaCopiesTest, AStreamThatGoesHoldsNothingBack) {
  EventPool timing(cudaEventDefault, 4);
  MappedMemory mapped;
  mapped.add(in_.data(), kBytes);
  {
    CudaStream stream(device_->events(), timing, mapped, StreamPriority::kLowest);
    for (std::size_t i = 0; i < 2; ++i)
      stream.copy(a_.data() + i * kPage, Tier::kDevice, in_.data() + i * kPage, Tier::kHost, kPage);
  }
  expect_calls(1, 0);
  EXPECT_TRUE(equal(fetch().data(), in_.data(), 2 * kPage));
}

TEST_F(CudaCopiesTest, MemoryIsMappedFromItsFirstByteToItsLast) {
  MappedMemory mapped;
  EXPECT_FALSE(mapped.contains(in_.data(), 1));
  mapped.add(in_.data(), kBytes);
  EXPECT_TRUE(mapped.contains(in_.data(), kBytes));
  EXPECT_TRUE(mapped.contains(in_.data() + kBytes - 1, 1));
  EXPECT_FALSE(mapped.contains(in_.data() + kBytes - 1, 2));
  EXPECT_FALSE(mapped.contains(in_.data() - 1, 2));
  std::vector<std::byte> pageable(16);
  mapped.add(pageable.data(), pageable.size());
  EXPECT_FALSE(mapped.contains(pageable.data(), 1));
  mapped.remove(in_.data());
  EXPECT_FALSE(mapped.contains(in_.data(), 1));
}

TEST_F(CudaCopiesTest, ThoseThatOverlapKeepTheirOrder) {
  for (int round = 0; round < 20; ++round) {
    fill(static_cast<std::uint32_t>(round) << 20);
    down_page(0, 0);
    down(kPage / 2 / 16 * 16, 2 * kPage, kPage);  // over the first one's end
    down_page(4, 4);
    down_page(4, 5);
    const auto got = fetch();
    ASSERT_TRUE(equal(got.data(), in_.data(), kPage / 2 / 16 * 16));
    ASSERT_TRUE(equal(got.data() + kPage / 2 / 16 * 16, in_.data() + 2 * kPage, kPage));
    ASSERT_TRUE(equal(got.data() + 4 * kPage, in_.data() + 5 * kPage, kPage));
  }
  // {0}, {overlapping, 4}, {5}, and the two of fetch().
  expect_calls(20, 20 * (2 + 2));
}

TEST_F(CudaCopiesTest, ACopyFindsWhatAnEarlierOneOfTheDeviceWrote) {
  const auto within = [&](const Buffer& to, std::size_t to_page, const Buffer& from,
                          std::size_t from_page) {
    load().copy(to.data() + to_page * kPage, Tier::kDevice, from.data() + from_page * kPage,
                Tier::kDevice, kPage);
  };
  for (std::size_t i = 0; i < 4; ++i) down_page(i, i);
  within(b_, 0, a_, 0);
  within(b_, 1, a_, 1);
  within(a_, 4, b_, 1);  // what was just written
  within(a_, 1, a_, 2);  // over what was just read
  load().record().wait();
  expect_calls(3, 0);
  EXPECT_EQ(device_->link_traffic().down_bytes, 4 * kPage);
  const auto got = fetch();
  EXPECT_TRUE(equal(got.data() + 4 * kPage, in_.data() + kPage, kPage));
  EXPECT_TRUE(equal(got.data() + kPage, in_.data() + 2 * kPage, kPage));
}

TEST_F(CudaCopiesTest, UnalignedAndLargeOnesGoAlone) {
  down(8, 0, 16);
  down(32, 8, 16);
  down(64, 32, 20);
  load().record().wait();
  expect_calls(0, 3);
  const auto got = fetch();
  EXPECT_TRUE(equal(got.data() + 8, in_.data(), 16));
  EXPECT_TRUE(equal(got.data() + 32, in_.data() + 8, 16));
  EXPECT_TRUE(equal(got.data() + 64, in_.data() + 32, 20));

  const Buffer large_in = device_->allocate(Tier::kHost, 384_KiB, "large");
  const Buffer large = device_->allocate(Tier::kDevice, 384_KiB, "large");
  std::memset(large_in.data(), 7, 384_KiB);
  reset_counts();
  for (const std::size_t at : {0_KiB, 192_KiB})
    load().copy(large.data() + at, Tier::kDevice, large_in.data() + at, Tier::kHost, 192_KiB);
  load().record().wait();
  expect_calls(0, 2);
}

TEST_F(CudaCopiesTest, HostMemoryThatIsNotTheDevicesOwnIsCopiedByTheDriver) {
  std::vector<std::byte> pageable(2 * kPage + 16, std::byte{5});
  std::byte* const aligned =
      pageable.data() + (16 - reinterpret_cast<std::uintptr_t>(pageable.data()) % 16) % 16;
  for (std::size_t i = 0; i < 2; ++i)
    load().copy(a_.data() + i * kPage, Tier::kDevice, aligned + i * kPage, Tier::kHost, kPage);
  load().record().wait();
  expect_calls(0, 2);
  EXPECT_TRUE(equal(fetch().data(), aligned, 2 * kPage));
}

TEST_F(CudaCopiesTest, ThoseWithinTheHostAreNot) {
  for (std::size_t i = 0; i < 2; ++i)
    load().copy(out_.data() + i * kPage, Tier::kHost, in_.data() + i * kPage, Tier::kHost, kPage);
  load().record().wait();
  expect_calls(0, 2);
  EXPECT_TRUE(equal(out_.data(), in_.data(), 2 * kPage));
}

TEST_F(CudaCopiesTest, AnItemBetweenTwoCopiesEndsTheBatch) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < 4; ++i) {  // two pages, then a record
    down_page(2 * i, i);
    down_page(2 * i + 1, i);
    events.push_back(load().record());
  }
  events.back().wait();
  expect_calls(4, 0);
}

TEST_F(CudaCopiesTest, ACopyBehindAWaitSeesWhatItWaitedFor) {
  Completion disk;
  down_page(0, 0);
  down_page(1, 1);
  const Event before = load().record();
  load().wait(disk.event());
  down_page(2, 2);
  down_page(3, 3);
  const Event after = load().record();
  before.wait();
  EXPECT_FALSE(after.done());
  expect_calls(1, 0);
  fill(100);
  disk.succeed();
  after.wait();
  expect_calls(2, 0);
  EXPECT_TRUE(equal(fetch().data() + 2 * kPage, in_.data() + 2 * kPage, 2 * kPage));
}

TEST_F(CudaCopiesTest, AFailureBeforeThemSkipsThem) {
  Completion disk;
  load().wait(disk.event());
  down_page(0, 0);
  down_page(1, 1);
  const Event end = load().record();
  disk.fail(std::make_exception_ptr(IoError("the disk is gone")));
  EXPECT_THROW(end.wait(), IoError);
  expect_calls(0, 0);
  EXPECT_EQ(device_->link_traffic().down_bytes, 0u);
}

#ifdef BARGE_CUDA_EMULATED
TEST_F(CudaCopiesTest, GoAloneWhereTheGpuHasHostMemoryElsewhere) {
  cuda_emulation::device_model().host_at_own_address = false;
  make_device();
  for (std::size_t i = 0; i < 10; ++i) down_page(i, i);
  load().record().wait();
  expect_calls(0, 10);
  EXPECT_TRUE(equal(fetch().data(), in_.data(), 10 * kPage));
}

TEST_F(CudaCopiesTest, ARefusedLaunchReachesWhoeverWaits) {
  cuda_emulation::fail_call(cuda_emulation::Call::kLaunch, 1, cudaErrorInvalidValue);
  down_page(0, 0);
  down_page(1, 1);
  const Event end = load().record();
  EXPECT_THAT([&] { end.wait(); },
              testing::ThrowsMessage<DeviceError>(testing::HasSubstr("a kernel launch")));
  EXPECT_EQ(device_->link_traffic().down_bytes, 0u);
  cuda_emulation::reset_device();
}
#endif

}  // namespace
}  // namespace barge::cuda
