#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "bench/memory_limit.h"
#include "core/bytes.h"
#include "core/cpu_device.h"
#include "kernels/kernels.h"

namespace barge::bench {

inline std::vector<float> numbers(std::int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& x : all) x = normal(random);
  return all;
}

struct Machine {
  Budgets budgets{4_GiB, 4_GiB, 0};
  CpuDevice device{{}, budgets};
  std::unique_ptr<Kernels> kernels =
      make_cpu_kernels(device, {preferred_compute_type(), 1 << 16, 8192, 32, 128});
  std::unique_ptr<Kernels> kernels_in_8_bits =  // inputs of `linear`
      make_cpu_kernels(device, {preferred_compute_type(), 1 << 16, 8192, 0, 0, 8});

  void finish() { device.compute().record().wait(); }
};

inline Machine& machine() {
  static Machine instance;
  return instance;
}

/// Bytes per second of processor time, all threads together, at which memory can be read.
inline double memory_limit() {
  static const int threads = machine().device.pool().threads();
  static const double rate = memory_read_rate(threads);
  return rate;
}

/// Processor seconds that the bare products of a linear take: all tiles, weights ready in memory.
double bare_seconds(std::int64_t rows, std::int64_t inputs, std::int64_t outputs);

}  // namespace barge::bench
