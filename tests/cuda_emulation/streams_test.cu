// The order of streams, events and host functions.
#include <gmock/gmock.h>

#include <atomic>
#include <vector>

#include "fixture.h"

namespace cuda_emulation {
namespace {

constexpr int kCount = 100;
constexpr int kTries = 20;  // seeds in which a mistake must show at least once

__global__ void set_all(int* out, int value) { out[threadIdx.x] = value; }
__global__ void add_one(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x] + 1; }

class Streams : public testing::Test {
 protected:
  Streams() {
    cudaStreamCreateWithFlags(&first_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second_, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  }
  ~Streams() override {
    cudaDeviceSynchronize();
    cudaEventDestroy(event_);
    cudaStreamDestroy(first_);
    cudaStreamDestroy(second_);
  }

  /// The first stream writes 1, and the second reads it; whether that came out right.
  bool read_after_write(bool wait) {
    Array<int> a(std::vector<int>(kCount, 0)), b(std::vector<int>(kCount, 0));
    start(1, kCount, 0, first_, set_all, a.data(), 1);
    cudaEventRecord(event_, first_);
    if (wait) cudaStreamWaitEvent(second_, event_);
    start(1, kCount, 0, second_, add_one, a.data(), b.data());
    cudaStreamSynchronize(second_);
    return b.values() == std::vector<int>(kCount, 2);
  }
  /// The second stream overwrites what the first one reads.
  bool write_after_read(bool wait) {
    Array<int> a(std::vector<int>(kCount, 1)), b(std::vector<int>(kCount, 0));
    start(1, kCount, 0, first_, add_one, a.data(), b.data());
    cudaEventRecord(event_, first_);
    if (wait) cudaStreamWaitEvent(second_, event_);
    start(1, kCount, 0, second_, set_all, a.data(), 5);
    cudaStreamSynchronize(first_);
    return b.values() == std::vector<int>(kCount, 2);
  }
  /// In how many of kTries seeds it is true.
  template <typename Attempt>
  int times(Attempt attempt) {
    int count = 0;
    for (int seed = 1; seed <= kTries; ++seed) {
      set_seed(seed);
      count += attempt();
    }
    return count;
  }

  cudaStream_t first_, second_;
  cudaEvent_t event_;
};

TEST_F(Streams, AreInOrderWhereOneWaitsForTheOther) {
  EXPECT_EQ(times([&] { return read_after_write(true); }), kTries);
  EXPECT_EQ(times([&] { return write_after_read(true); }), kTries);
}

TEST_F(Streams, AreInAnyOrderElse) {
  EXPECT_THAT(times([&] { return read_after_write(false); }),
              testing::AllOf(testing::Gt(0), testing::Lt(kTries)));
  EXPECT_THAT(times([&] { return write_after_read(false); }),
              testing::AllOf(testing::Gt(0), testing::Lt(kTries)));
}

TEST_F(Streams, WaitForWhatAnEventRecordedBeforeTheWait) {
  Array<int> a(std::vector<int>(kCount, 0));
  cudaStreamWaitEvent(second_, event_);  // never recorded: nothing to wait for
  cudaEventRecord(event_, first_);
  cudaStreamWaitEvent(second_, event_);
  start(1, kCount, 0, first_, set_all, a.data(), 1);
  cudaEventRecord(event_, first_);  // again: later waits are for this
  start(1, kCount, 0, second_, set_all, a.data(), 2);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
}

TEST_F(Streams, GoOnWhileSomebodyPolls) {
  start(1, 1, 0, first_, set_all, Array<int>(std::vector<int>(1, 0)).data(), 1);
  cudaEventRecord(event_, first_);
  while (cudaEventQuery(event_) == cudaErrorNotReady) continue;
  EXPECT_EQ(cudaStreamQuery(first_), cudaSuccess);
}

TEST_F(Streams, CallHostFunctionsInOrder) {
  std::vector<int> seen;
  struct Note {
    std::vector<int>* seen;
    int number;
    cudaError_t result;
  };
  Note notes[] = {{&seen, 1, {}}, {&seen, 2, {}}, {&seen, 3, {}}};
  for (Note& note : notes)
    cudaLaunchHostFunc(
        first_,
        [](void* data) {
          auto& note = *static_cast<Note*>(data);
          note.seen->push_back(note.number);
          note.result = cudaStreamSynchronize(nullptr);
        },
        &note);
  cudaStreamSynchronize(first_);
  EXPECT_THAT(seen, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(notes[0].result, cudaErrorNotPermitted);
}

TEST_F(Streams, GoOnWhenNobodyAsksForAWhile) {
  std::atomic<bool> called = false;
  cudaLaunchHostFunc(
      first_, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &called);
  while (!called) continue;
}

TEST_F(Streams, ThatBlockAreOrderedWithTheNullStream) {
  cudaStream_t blocking;
  cudaStreamCreate(&blocking);
  EXPECT_EQ(times([&] {
              Array<int> a(std::vector<int>(kCount, 0)), b(kCount);
              start(1, kCount, 0, blocking, set_all, a.data(), 1);
              start(1, kCount, 0, nullptr, add_one, a.data(), b.data());
              start(1, kCount, 0, blocking, set_all, a.data(), 5);
              cudaStreamSynchronize(blocking);
              return b.values() == std::vector<int>(kCount, 2);
            }),
            kTries);
  cudaStreamDestroy(blocking);
}

TEST_F(Streams, MeasureTimeBetweenTimedEvents) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
  cudaEventRecord(begin, first_);
  cudaEventRecord(end, first_);
  cudaEventSynchronize(end);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  cudaEventRecord(event_, first_);
  cudaEventSynchronize(event_);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, event_), cudaErrorInvalidResourceHandle);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

TEST_F(Streams, RefuseHandlesThatWereDestroyed) {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event_, stream), cudaErrorInvalidResourceHandle);
}

TEST_F(Streams, CountCalls) {
  Array<int> a(std::vector<int>(kCount, 0));
  reset_counters();
  start(1, kCount, 0, first_, set_all, a.data(), 1);
  cudaEventRecord(event_, first_);
  cudaStreamWaitEvent(second_, event_);
  EXPECT_EQ(count(Call::kLaunch), 1u);
  EXPECT_EQ(count(Call::kEventRecord), 1u);
  EXPECT_EQ(count(Call::kStreamWait), 1u);
  EXPECT_EQ(blocking_calls(), 0u);
  cudaEventSynchronize(event_);
  cudaStreamSynchronize(second_);
  EXPECT_EQ(blocking_calls(), 2u);
  static_cast<void>(a.values());
  EXPECT_EQ(count(Call::kBlockingCopy), 1u);
}

TEST_F(Streams, FailCallsAsAsked) {
  fail_call(Call::kEventRecord, 2, cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event_, first_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Streams, FailForEverOnceTheirWorkFailed) {
  Array<int> a(std::vector<int>(kCount, 7));
  fail_work(2, cudaErrorIllegalAddress);
  start(1, kCount, 0, first_, set_all, a.data(), 1);
  start(1, kCount, 0, first_, set_all, a.data(), 2);
  start(1, kCount, 0, first_, set_all, a.data(), 3);
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(second_), cudaErrorIllegalAddress);
  EXPECT_EQ(start(1, kCount, 0, second_, set_all, a.data(), 4), cudaErrorIllegalAddress);
  reset_device();
  EXPECT_EQ(a.values(), std::vector<int>(kCount, 1));
}

TEST(Launches, RefuseWhatNoDeviceCanRun) {
  Array<int> a(std::vector<int>(kCount, 7));
  EXPECT_EQ(start(0, 32, 0, nullptr, set_all, a.data(), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(1, 1025, 0, nullptr, set_all, a.data(), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(dim3(1, 65536), 1, 0, nullptr, set_all, a.data(), 1),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(1, 1, 50'000, nullptr, set_all, a.data(), 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(set_all, cudaFuncAttributeMaxDynamicSharedMemorySize, 50'000),
            cudaSuccess);
  EXPECT_EQ(start(1, 1, 50'000, nullptr, set_all, a.data(), 1), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(set_all, cudaFuncAttributeMaxDynamicSharedMemorySize, 300'000),
            cudaErrorInvalidValue);
  cudaFuncSetAttribute(set_all, cudaFuncAttributeMaxDynamicSharedMemorySize, 48 << 10);
  cudaDeviceSynchronize();
}

}  // namespace
}  // namespace cuda_emulation
