// Threads of a block: order, barriers, warps, shared memory, atomics.
#include <gmock/gmock.h>

#include <numeric>
#include <set>
#include <vector>

#include "fixture.h"

namespace cuda_emulation {
namespace {

constexpr unsigned kAll = 0xffffffff;

__global__ void write_index(int* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = i;
}

TEST(Threads, RunOnceEachWithTheirOwnIndex) {
  Array<int> out(1000);
  ASSERT_EQ(start(8, 128, 0, nullptr, write_index, out.data(), 1000), cudaSuccess);
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(out.values(), expected);
}

__global__ void write_coordinates(int* out) {
  const auto thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const auto block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

TEST(Threads, HaveThreeCoordinates) {
  Array<int> out(std::vector<int>(2 * 3 * 4 * 5 * 3 * 2, 0));
  start(dim3(2, 3, 4), dim3(5, 3, 2), 0, nullptr, write_coordinates, out.data());
  EXPECT_THAT(out.values(), testing::Each(1));
}

__global__ void note_order(int* next, int* order) {
  order[atomicAdd(next, 1)] = static_cast<int>(threadIdx.x);
}

TEST(Threads, RunInAnotherOrderEachTime) {
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 5; ++i) {
    Array<int> next(std::vector<int>{0}), order(40);
    start(1, 40, 0, nullptr, note_order, next.data(), order.data());
    orders.insert(order.values());
  }
  EXPECT_EQ(orders.size(), 5u);
}

template <bool synchronised>
__global__ void reverse(const int* in, int* out, int rounds) {
  __shared__ int kept[96];
  const unsigned i = threadIdx.x;
  int x = in[i];
  for (int round = 0; round < rounds; ++round) {
    kept[i] = x;
    if (synchronised) __syncthreads();
    x = kept[95 - i];
    __syncthreads();
  }
  out[i] = x;
}

TEST(Threads, ExchangeThroughSharedMemoryBetweenBarriers) {
  std::vector<int> values(96);
  std::iota(values.begin(), values.end(), 0);
  Array<int> in(values), out(96);
  start(1, 96, 0, nullptr, reverse<true>, in.data(), out.data(), 2);
  EXPECT_EQ(out.values(), values);
}

TEST(Threads, WithoutABarrierReadWhatIsNotThereYet) {
  std::vector<int> values(96);
  std::iota(values.begin(), values.end(), 0);
  Array<int> in(values), out(96);
  start(1, 96, 0, nullptr, reverse<false>, in.data(), out.data(), 2);
  EXPECT_NE(out.values(), values);
}

__global__ void read_fresh_shared_memory(unsigned* out) {
  __shared__ unsigned kept[32];
  out[blockIdx.x * 32 + threadIdx.x] = kept[threadIdx.x];
  out[gridDim.x * 32 + blockIdx.x * 32 + threadIdx.x] =
      static_cast<unsigned*>(dynamic_shared())[threadIdx.x];
  __syncthreads();
  kept[threadIdx.x] = static_cast<unsigned*>(dynamic_shared())[threadIdx.x] = 7;
}

TEST(SharedMemory, HoldsGarbageWhenABlockBegins) {
  Array<unsigned> out(2 * 3 * 32);
  start(3, 32, 128, nullptr, read_fresh_shared_memory, out.data());  // its first use by the thread
  start(3, 32, 128, nullptr, read_fresh_shared_memory, out.data());
  EXPECT_THAT(out.values(), testing::Each(0xffffffffu));
}

__global__ void end_early(int* out, int threads_that_stay) {
  if (static_cast<int>(threadIdx.x) >= threads_that_stay) return;
  __syncthreads();
  const int sum = __shfl_xor_sync(kAll, 1, 1);
  __syncthreads();
  out[threadIdx.x] = sum;
}

TEST(Threads, ThatEndedAreNotWaitedFor) {
  Array<int> out(std::vector<int>(70, 0));
  start(1, 70, 0, nullptr, end_early, out.data(), 34);
  const auto values = out.values();
  for (int i = 0; i < 70; ++i) EXPECT_EQ(values[i], i < 34) << i;
}

__global__ void sum_warps(const float* in, float* shuffled, unsigned* votes, int* lanes) {
  float sum = in[threadIdx.x];
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(kAll, sum, by);
  const float first = __shfl_sync(kAll, sum, 0);
  if (first != sum) return;
  shuffled[threadIdx.x] = sum;
  votes[threadIdx.x] = __ballot_sync(kAll, threadIdx.x % 3 == 0);
  lanes[threadIdx.x] = 1000 * __shfl_down_sync(kAll, static_cast<int>(threadIdx.x % 32), 3, 8) +
                       __shfl_up_sync(kAll, static_cast<int>(threadIdx.x % 32), 2);
}

TEST(Warps, ShuffleAndVote) {
  std::vector<float> in(64);
  std::iota(in.begin(), in.end(), 1.0f);
  Array<float> values(in), sums(64);
  Array<unsigned> votes(64);
  Array<int> lanes(64);
  start(1, 64, 0, nullptr, sum_warps, values.data(), sums.data(), votes.data(), lanes.data());
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(sums.values()[i], i < 32 ? 32 * 33 / 2 : 64 * 65 / 2 - 32 * 33 / 2);
    unsigned expected = 0;
    for (int l = 0; l < 32; ++l) expected |= unsigned{(32 * (i / 32) + l) % 3 == 0} << l;
    EXPECT_EQ(votes.values()[i], expected);
    const int l = i % 32, down = l % 8 + 3 < 8 ? l + 3 : l, up = l >= 2 ? l - 2 : l;
    EXPECT_EQ(lanes.values()[i], 1000 * down + up) << i;
  }
}

__global__ void halves_by_themselves(int* out) {
  const unsigned lane = threadIdx.x, mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  int sum = static_cast<int>(lane);
  if (lane < 16)
    for (int by = 8; by > 0; by /= 2) sum += __shfl_xor_sync(mask, sum, by);
  else
    for (int by = 8; by > 0; by /= 2) sum = max(sum, __shfl_xor_sync(mask, sum, by));
  out[lane] = sum;
}

TEST(Warps, MeetInPartsThatTheirMasksName) {
  Array<int> out(32);
  start(1, 32, 0, nullptr, halves_by_themselves, out.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out.values()[i], i < 16 ? 120 : 31);
}

__global__ void use_atomics(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  atomicAdd(&out[0], i);
  atomicMax(&out[1], i);
  atomicMin(&out[2], i);
  int seen = out[3];
  for (int old; (old = atomicCAS(&out[3], seen, seen + 2)) != seen;) seen = old;
}

TEST(Atomics, CombineAllThreads) {
  Array<int> out(std::vector<int>{0, -1, 1000, 0});
  start(1, 100, 0, nullptr, use_atomics, out.data());
  EXPECT_THAT(out.values(), testing::ElementsAre(4950, 99, 0, 200));
}

__global__ void meet_at_different_barriers() {
  if (threadIdx.x < 3)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void meet_in_a_branch(int* out) {
  if (threadIdx.x < 3) __syncthreads();
  out[threadIdx.x] = __shfl_sync(kAll, 1, 0);
}
__global__ void shuffle_outside_the_mask(int* out) { out[threadIdx.x] = __shfl_sync(0xff, 1, 0); }
__global__ void write_beyond_shared_memory() {
  static_cast<char*>(dynamic_shared())[100 + threadIdx.x] = 1;
}

class ThreadsDeathTest : public testing::Test {
 protected:
  ThreadsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // the device has threads
};

TEST_F(ThreadsDeathTest, AtDifferentBarriersEndTheProgram) {
  EXPECT_DEATH(
      {
        start(1, 8, 0, nullptr, meet_at_different_barriers);
        cudaDeviceSynchronize();
      },
      "threads of a block are at different barriers: __syncthreads at .*threads_test.cu:");
}
TEST_F(ThreadsDeathTest, ThatWaitForEverEndTheProgram) {
  EXPECT_DEATH(
      {
        Array<int> out(8);
        start(1, 8, 0, nullptr, meet_in_a_branch, out.data());
        cudaDeviceSynchronize();
      },
      "wait for each other for ever: 5 in __shfl_sync.*3 in __syncthreads|"
      "wait for each other for ever: 3 in __syncthreads.*5 in __shfl_sync");
}
TEST_F(ThreadsDeathTest, OutsideTheirOwnMaskEndTheProgram) {
  EXPECT_DEATH(
      {
        Array<int> out(32);
        start(1, 32, 0, nullptr, shuffle_outside_the_mask, out.data());
        cudaDeviceSynchronize();
      },
      "by a lane that its own mask doesn't name");
}
TEST_F(ThreadsDeathTest, BeyondSharedMemoryEndTheProgram) {
  EXPECT_DEATH(
      {
        start(1, 32, 100, nullptr, write_beyond_shared_memory);
        cudaDeviceSynchronize();
      },
      "beyond its dynamic shared memory");
}

}  // namespace
}  // namespace cuda_emulation
