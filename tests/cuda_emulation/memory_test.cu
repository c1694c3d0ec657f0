// Device memory, pinned memory and copies.
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "fixture.h"

namespace cuda_emulation {
namespace {

class DeviceMemory : public testing::Test {
 protected:
  DeviceMemory() {
    cudaMalloc(&data_, 1000);
    reset_counters();
  }
  ~DeviceMemory() override { cudaFree(data_); }

  std::byte* data_;
  std::array<std::byte, 1000> host_{};
};

TEST_F(DeviceMemory, BeginsAsGarbage) {
  cudaMemcpy(host_.data(), data_, 1000, cudaMemcpyDeviceToHost);
  EXPECT_THAT(host_, testing::Each(std::byte{0xff}));
}

TEST_F(DeviceMemory, TakesCopiesWithinItself) {
  for (std::size_t i = 0; i < 1000; ++i) host_[i] = static_cast<std::byte>(i);
  const auto sent = host_;
  EXPECT_EQ(cudaMemcpy(data_, sent.data(), 1000, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host_.data() + 1, data_, 999, cudaMemcpyDefault), cudaSuccess);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end() - 1, host_.begin() + 1));
}

TEST_F(DeviceMemory, RefusesCopiesBeyondItsEnds) {
  EXPECT_EQ(cudaMemcpy(data_ + 1, host_.data(), 1000, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host_.data(), data_ - 1, 10, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(data_ + 990, 0, 11), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host_.data(), 0, 11), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host_.data(), data_, 10, cudaMemcpyHostToDevice),
            cudaErrorInvalidMemcpyDirection);
}

TEST_F(DeviceMemory, RefusesCopiesOnceFreed) {
  std::byte* freed;
  cudaMalloc(&freed, 100);
  cudaFree(freed);
  EXPECT_EQ(cudaMemcpy(freed, host_.data(), 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(freed), cudaErrorInvalidValue);
}

TEST_F(DeviceMemory, Ends) {
  std::size_t free_bytes, total_bytes;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  std::byte* large = nullptr;
  EXPECT_EQ(cudaMalloc(&large, free_bytes + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(large, nullptr);
  EXPECT_EQ(cudaMalloc(&large, free_bytes), cudaSuccess);
  cudaFree(large);
}

TEST_F(DeviceMemory, StagesPageableMemoryBeforeTheCallReturns) {
  std::memset(host_.data(), 1, 1000);
  cudaMemcpyAsync(data_, host_.data(), 1000, cudaMemcpyHostToDevice);
  std::memset(host_.data(), 2, 1000);
  cudaMemcpyAsync(host_.data(), data_, 1000, cudaMemcpyDeviceToHost);
  EXPECT_THAT(host_, testing::Each(std::byte{1}));  // and the way back waits
  EXPECT_EQ(count(Call::kPageableCopy), 2u);
  EXPECT_EQ(blocking_calls(), 2u);
}

TEST_F(DeviceMemory, ReadsPinnedMemoryWhenItCopies) {
  ASSERT_EQ(cudaHostRegister(host_.data(), 1000, cudaHostRegisterPortable), cudaSuccess);
  int late = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    set_seed(seed);
    std::memset(host_.data(), 1, 1000);
    cudaMemcpyAsync(data_, host_.data(), 1000, cudaMemcpyHostToDevice);
    std::memset(host_.data(), 2, 1000);  // too early
    cudaMemcpyAsync(host_.data(), data_, 1000, cudaMemcpyDeviceToHost);
    cudaStreamSynchronize(nullptr);
    late += host_[0] == std::byte{2};
  }
  EXPECT_GT(late, 0);
  EXPECT_EQ(count(Call::kPageableCopy), 0u);
  EXPECT_EQ(cudaMemcpyAsync(data_, host_.data() - 1, 10, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);  // a part isn't pinned
  EXPECT_EQ(cudaHostRegister(host_.data() + 10, 10, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(host_.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host_.data()), cudaErrorHostMemoryNotRegistered);
}

__global__ void touch(std::byte* at);

TEST_F(DeviceMemory, LetsKernelsTouchMappedHostMemory) {
  void* there = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&there, host_.data(), 0), cudaErrorInvalidValue);
  ASSERT_EQ(cudaHostRegister(host_.data(), 1000, cudaHostRegisterPortable), cudaSuccess);
  EXPECT_EQ(cudaHostGetDevicePointer(&there, host_.data(), 0), cudaErrorInvalidValue);
  cudaHostUnregister(host_.data());
  ASSERT_EQ(cudaHostRegister(host_.data(), 1000, cudaHostRegisterMapped), cudaSuccess);
  EXPECT_EQ(cudaHostGetDevicePointer(&there, host_.data(), 0), cudaSuccess);
  EXPECT_EQ(there, host_.data());
  start(1, 1, 0, nullptr, touch, host_.data() + 999);
  cudaDeviceSynchronize();
  EXPECT_EQ(host_[999], std::byte{1});
  device_model().host_at_own_address = false;
  EXPECT_EQ(cudaHostGetDevicePointer(&there, host_.data(), 0), cudaSuccess);
  EXPECT_NE(there, host_.data());
  device_model().host_at_own_address = true;
  cudaHostUnregister(host_.data());
}

__global__ void touch(std::byte* at) { *at = std::byte{1}; }

TEST(DeviceMemoryDeathTest, EndsTheProgramWhenTouchedAfterItWasFreed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::byte* freed;
        cudaMalloc(&freed, 100);
        cudaFree(freed);
        start(1, 1, 0, nullptr, touch, freed);
        cudaDeviceSynchronize();
      },
      "");
}

TEST(DeviceMemoryDeathTest, EndsTheProgramWhenTheHostTouchesIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("BARGE_EMULATION_PROTECT", "1", 1);  // for the program that the test starts
  EXPECT_DEATH(
      {
        std::byte* data;
        cudaMalloc(&data, 100);
        start(1, 1, 0, nullptr, touch, data);
        cudaDeviceSynchronize();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        *data = std::byte{1};
      },
      "");
  unsetenv("BARGE_EMULATION_PROTECT");
}

}  // namespace
}  // namespace cuda_emulation
