#include "core/cpu_device.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CpuDeviceTest : public testing::Test {
 protected:
  Budgets budgets_{64_MiB, 64_MiB, 64_MiB};
  CpuDevice device_{{.threads = 2}, budgets_};
};

TEST_F(CpuDeviceTest, StreamsWorkInOrderAndAcrossEvents) {
  std::vector<int> order;
  Completion gate;
  device_.compute().wait(gate.event());
  device_.compute().call([&] { order.push_back(2); });
  const Event computed = device_.compute().record();
  device_.store().wait(computed);
  device_.store().call([&] { order.push_back(3); });
  const Event stored = device_.store().record();
  device_.load().call([&] { order.push_back(1); });
  device_.load().record().wait();
  EXPECT_FALSE(computed.done());
  gate.succeed();
  stored.wait();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST_F(CpuDeviceTest, AFailureEndsItsStreamAndThoseThatWaitForIt) {
  std::atomic<bool> ran = false;
  device_.load().call([] { throw IoError("the disk is gone"); });
  device_.load().call([&] { ran = true; });
  device_.compute().wait(device_.load().record());
  device_.compute().call([&] { ran = true; });
  const Event end = device_.compute().record();
  EXPECT_THAT([&] { end.wait(); }, ThrowsMessage<IoError>(HasSubstr("the disk is gone")));
  EXPECT_FALSE(ran);
  device_.store().call([&] { ran = true; });
  device_.store().record().wait();
  EXPECT_TRUE(ran);
}

TEST_F(CpuDeviceTest, ACompletionMayEndWithWorkOfADevice) {
  Completion read, copy;
  device_.load().wait(copy.event());
  const Event event = read.event();
  EXPECT_FALSE(event.done());
  read.succeed(device_.load().record());
  EXPECT_FALSE(event.done());
  copy.fail(std::make_exception_ptr(IoError("the link is gone")));
  EXPECT_THAT([&] { event.wait(); }, ThrowsMessage<IoError>(HasSubstr("the link is gone")));
  EXPECT_TRUE(event.done());
}

TEST_F(CpuDeviceTest, AnAbandonedCompletionFailsItsEvent) {
  Event event;
  {
    const Completion abandoned;
    event = abandoned.event();
  }
  EXPECT_THROW(event.wait(), Error);
}

TEST_F(CpuDeviceTest, CountsEveryBufferInTheHostBudgetWhenUnified) {
  const Buffer a = device_.allocate(Tier::kDevice, 1, "a");
  const Buffer b = device_.allocate(Tier::kHost, 4097, "b");
  EXPECT_EQ(budgets_.host.used(), 3 * 4096u);
  EXPECT_EQ(budgets_.device.used(), 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 4096, 0u);
  EXPECT_THROW((void)device_.allocate(Tier::kHost, 1_GiB, "c"), OutOfMemory);
}

TEST(EmulatedLink, CopiesAtTheRateThatWasAskedForAndCountsBothWays) {
  Budgets budgets(8_MiB, 8_MiB, 0);
  CpuDevice device({.threads = 1, .emulate_link = 1e9}, budgets);
  const Buffer on_device = device.allocate(Tier::kDevice, 4_MiB, "x");
  const Buffer on_host = device.allocate(Tier::kHost, 4_MiB, "x");
  EXPECT_EQ(budgets.device.used(), 4_MiB);
  std::memset(on_host.data(), 7, 4_MiB);
  const auto begin = device.clock().now();
  device.load().copy(on_device.data(), Tier::kDevice, on_host.data(), Tier::kHost, 4_MiB);
  device.load().record().wait();
  EXPECT_GE((device.clock().now() - begin).count(), 4.0 * 1024 * 1024 / 1e9);
  EXPECT_EQ(std::to_integer<int>(on_device.data()[4_MiB - 1]), 7);
  device.store().copy(on_host.data(), Tier::kHost, on_device.data(), Tier::kDevice, 100);
  device.store().record().wait();
  EXPECT_EQ(device.link_traffic().down_bytes, 4_MiB);
  EXPECT_EQ(device.link_traffic().up_bytes, 100u);
}

}  // namespace
}  // namespace barge
