#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace barge::bench {

/// Seconds of processor time that this process has used: what rates are per, so that they hold on a
/// machine that does other things too.
inline double processor_seconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// Bytes per second of processor time that `threads` threads read from memory with plain loads, the
/// best of ten passes over 128 MiB: what kernels that stream are held against.
inline double memory_read_rate(int threads) {
  const std::vector<std::uint64_t> words((128 << 20) / sizeof(std::uint64_t), 3);
  const std::size_t each = words.size() / static_cast<std::size_t>(threads);
  double best = 0;
  for (int pass = 0; pass < 10; ++pass) {
    const double begin = processor_seconds();
    {
      std::vector<std::jthread> all;
      for (int t = 0; t < threads; ++t)
        all.emplace_back([&, first = words.data() + static_cast<std::size_t>(t) * each] {
          std::uint64_t sum = 0;
          for (std::size_t i = 0; i < each; ++i) sum += first[i];
          benchmark::DoNotOptimize(sum);
        });
    }
    const auto bytes = static_cast<double>(words.size() * sizeof(std::uint64_t));
    best = std::max(best, bytes / (processor_seconds() - begin));
  }
  return best;
}

/// Counters "bytes/s", "limit" and "ratio" of work that moves so many bytes an iteration and took
/// `seconds` in all.
inline void count_bytes(benchmark::State& state, double bytes, double seconds, double limit) {
  const double rate = bytes * static_cast<double>(state.iterations()) / seconds;
  state.counters["bytes/s"] = rate;
  state.counters["limit"] = limit;
  state.counters["ratio"] = rate / limit;
}

}  // namespace barge::bench
