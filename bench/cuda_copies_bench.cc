// What a micro-batch's KV pages take to cross the link: a cudaMemcpyAsync each, and one launch of
// copy_ranges. The limit is one cudaMemcpyAsync of 256 MiB that way; host_us is what giving the
// copies to a stream takes a thread.
//   build/release/bench/cuda_copies_bench
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "bench/cuda_timing.h"
#include "kernels/cuda/copy_ranges.h"

namespace barge::cuda {
namespace {

constexpr std::size_t kLargest = std::size_t{256} << 20;
constexpr std::size_t kPages = 128;  // 32 sequences of a few hundred positions, or so

enum class Way { kDown, kUp, kWithin };
constexpr const char* kNames[] = {"down", "up", "within"};

class HostBytes {
 public:
  HostBytes() { check(cudaHostAlloc(&data_, kLargest, cudaHostAllocMapped), "cudaHostAlloc"); }
  HostBytes(const HostBytes&) = delete;
  ~HostBytes() { cudaFreeHost(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

// One after the other, and never two at once: the memory is theirs.
struct Places {
  HostBytes host;
  DeviceBytes device{kLargest}, other{kLargest};

  static Places& get() {
    static Places places;
    return places;
  }
  CopyRange whole(Way way) const {
    std::byte* const there = device.as<std::byte>();
    if (way == Way::kWithin) return {other.as<std::byte>(), there, kLargest};
    return way == Way::kDown ? CopyRange{there, host.data(), kLargest}
                             : CopyRange{host.data(), there, kLargest};
  }
};

void copy_each(cudaStream_t stream, const std::vector<CopyRange>& ranges) {
  for (const CopyRange& range : ranges)
    check(cudaMemcpyAsync(range.to, range.from, range.bytes, cudaMemcpyDefault, stream),
          "cudaMemcpyAsync");
}

// Pages anywhere in the pool, to consecutive places; or the other way, as records are stored.
std::vector<CopyRange> pages(Way way, std::size_t bytes) {
  const CopyRange whole = Places::get().whole(way);
  std::vector<std::size_t> slots(kLargest / bytes);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = i;
  std::shuffle(slots.begin(), slots.end(), std::mt19937(1));
  std::vector<CopyRange> ranges;
  for (std::size_t i = 0; i < kPages; ++i) {
    const std::size_t scattered = slots[i] * bytes, gathered = i * bytes;
    ranges.push_back(
        {static_cast<std::byte*>(whole.to) + (way == Way::kUp ? scattered : gathered),
         static_cast<const std::byte*>(whole.from) + (way == Way::kUp ? gathered : scattered),
         bytes});
  }
  return ranges;
}

double limit_of(Way way) {
  static double limits[3] = {};
  double& limit = limits[static_cast<std::size_t>(way)];
  if (limit > 0) return limit;
  Timer timer;
  for (int i = 0; i < 2; ++i)  // the first one warms up
    limit = kLargest / timer.seconds([way](cudaStream_t stream) {
      copy_each(stream, {Places::get().whole(way)});
    });
  return limit;
}

template <typename Work>
void time(benchmark::State& state, Way way, std::size_t page_bytes, const Work& work) {
  const std::vector<CopyRange> ranges = pages(way, page_bytes);
  const double limit = limit_of(way);
  Timer timer;
  double host_seconds = 0, seconds = 0;
  std::size_t calls = 0;
  const auto timed = [&](cudaStream_t stream) {
    const auto begin = std::chrono::steady_clock::now();
    work(stream, ranges);
    host_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++calls;
  };
  timer.seconds(timed);  // the first launch loads the kernel
  host_seconds = 0;
  calls = 0;
  for (auto _ : state) {
    const double once = timer.seconds(timed);
    state.SetIterationTime(once);
    seconds += once;
  }
  const double rate =
      static_cast<double>(kPages * page_bytes) * static_cast<double>(state.iterations()) / seconds;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["limit"] = limit * 1e-9;
  state.counters["ratio"] = rate / limit;
  state.counters["host_us"] = host_seconds / static_cast<double>(calls) * 1e6;
}

void add_benchmarks() {
  for (const Way way : {Way::kDown, Way::kUp, Way::kWithin})
    for (const std::size_t kib : {1, 4, 16, 64, 128}) {
      const std::string end = std::string("/") + kNames[static_cast<std::size_t>(way)] + "/" +
                              std::to_string(kib) + "KiB";
      const auto add = [&](const std::string& name, auto work) {
        benchmark::RegisterBenchmark(
            (name + end).c_str(),
            [=](benchmark::State& state) { time(state, way, kib << 10, work); })
            ->UseManualTime()
            ->MinTime(0.1);  // thirty of them
      };
      add("each", copy_each);
      add("one_launch", [](cudaStream_t stream, const std::vector<CopyRange>& ranges) {
        copy_ranges(stream, ranges);
      });
    }
}

}  // namespace
}  // namespace barge::cuda

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  barge::cuda::add_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
}
