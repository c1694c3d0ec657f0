#pragma once

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "bench/cuda_products.h"
#include "kernels/cuda/check.h"

namespace barge::cuda {

/// A stream and two events around what is timed.
class Timer {
 public:
  Timer() {
    check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  Timer(const Timer&) = delete;
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  /// Seconds that one of ten calls takes, given to the stream in a row: launches overlap, as they
  /// do in a sweep.
  template <typename Work>
  double seconds(const Work& work) {
    constexpr int kCalls = 10;
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    for (int i = 0; i < kCalls; ++i) work(stream_);
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds * 1e-3 / kCalls;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// Bytes a second that this GPU's memory reads and writes, in a copy of half a gigabyte: the best
/// of five, measured once a process.
inline double memory_rate() {
  static const double rate = [] {
    constexpr std::size_t kBytes = std::size_t{1} << 29;
    const DeviceBytes from(kBytes), to(kBytes);
    Timer timer;
    double best = 0;
    for (int i = 0; i < 5; ++i)
      best = std::max(best, 2 * kBytes / timer.seconds([&](cudaStream_t stream) {
        check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), kBytes, cudaMemcpyDeviceToDevice,
                              stream),
              "cudaMemcpyAsync");
      }));
    return best;
  }();
  return rate;
}

/// Times `work` (given a stream), which moves `bytes` to and from memory, and reports the rate, the
/// limit and their ratio.
template <typename Work>
void measure(benchmark::State& state, double bytes, const Work& work) {
  Timer timer;
  const double limit = memory_rate();
  timer.seconds(work);  // the first launch loads the kernel
  double total = 0;
  for (auto _ : state) {
    const double seconds = timer.seconds(work);
    state.SetIterationTime(seconds);
    total += seconds;
  }
  const double rate = bytes * static_cast<double>(state.iterations()) / total;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["limit"] = limit * 1e-9;
  state.counters["ratio"] = rate / limit;
}

}  // namespace barge::cuda
