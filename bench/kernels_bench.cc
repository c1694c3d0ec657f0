// What the kernels reach of what the machine could do. `kernels_bench --benchmark_filter=Linear`
// "limit" is measured in the same process: of products, bare oneDNN on the same shapes and threads
// (blocked weights of the compute type that are in memory already), where inputs are 8 bits the
// best that it reaches with u8 and s8 and so many inputs; of what streams, plain reads of memory,
// held against all bytes that are read and written. Rates and ratios are per second of processor
// time, all threads together, so that they hold on a machine that does other things too; the Time
// column is what the clock says.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "bench/kernels_bench.h"
#include "kernels/cpu/bare_product.h"
#include "kernels/cpu/dequantise.h"
#include "kernels/cpu/product.h"
#include "quant/codec.h"

namespace barge::bench {

double bare_seconds(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  static std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, double> known;
  auto& seconds = known[{rows, inputs, outputs}];
  if (seconds > 0) return seconds;
  Machine& m = machine();
  const int threads = m.device.pool().threads();
  const auto product = make_product(inputs, preferred_compute_type(), threads);
  const std::int64_t tiles = (outputs + kTileChannels - 1) / kTileChannels;
  std::vector<std::byte> weights(product->layout().bytes * static_cast<std::size_t>(tiles));
  std::vector<std::byte> x(static_cast<std::size_t>(rows * inputs) *
                           size_of(product->layout().dtype));
  std::vector<std::vector<float>> sums(threads, std::vector<float>(kRowTile * kTileChannels));
  std::vector<std::vector<std::byte>> scratch(threads,
                                              std::vector<std::byte>(product->scratch_bytes() + 1));
  const auto once = [&] {
    m.device.compute().call([&] {
      m.device.pool().run(tiles, [&](std::int64_t tile, int thread) {
        for (std::int64_t row = 0; row < rows; row += kRowTile)
          product->multiply(
              thread,
              x.data() + static_cast<std::size_t>(row * inputs) * size_of(product->layout().dtype),
              weights.data() + static_cast<std::size_t>(tile) * product->layout().bytes,
              scratch[thread].data(), sums[thread].data());
      });
    });
    m.finish();
  };
  once();
  seconds = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double begin = processor_seconds();
    once();
    seconds = std::min(seconds, processor_seconds() - begin);
  }
  return seconds;
}

namespace {

// Weights in panels of at most 4 MiB.
struct Weights {
  Weights(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
    const auto all = numbers(rows * cols);
    const std::int64_t step = std::max<std::int64_t>(
        64, static_cast<std::int64_t>(4_MiB / panel_layout(format, 64, cols).bytes) * 64);
    for (std::int64_t first = 0; first < rows; first += step) {
      const auto layout = panel_layout(format, std::min(step, rows - first), cols);
      stored.emplace_back(layout.bytes);
      encode_panel(layout, std::span(all).subspan(first * cols, layout.rows * cols), stored.back());
      panels.push_back({nullptr, layout});
    }
    for (std::size_t i = 0; i < panels.size(); ++i) panels[i].data = stored[i].data();
  }
  std::vector<std::vector<std::byte>> stored;
  std::vector<WeightPanel> panels;
};

// Seconds of `operations` at the best rate of bare oneDNN in 8 bits, which the clock measures.
double bare_seconds_in_8_bits(std::int64_t inputs, double operations) {
  static std::map<std::int64_t, double> rates;
  const int threads = machine().device.pool().threads();
  double& rate = rates[inputs];
  if (rate == 0) rate = best_product_rate(preferred_compute_type(), 8, threads, inputs, 0.5);
  return operations / (rate / threads);
}

void Linear(benchmark::State& state, const WeightFormat& format, int activation_bits = 16) {
  const std::int64_t inputs = state.range(0), outputs = state.range(1), rows = state.range(2);
  Machine& m = machine();
  const Weights weights(format, outputs, inputs);
  const DType type = preferred_compute_type();
  std::vector<std::byte> x(static_cast<std::size_t>(rows * inputs) * size_of(type));
  std::vector<float> y(static_cast<std::size_t>(rows * outputs));
  const MatrixView xv{x.data(), type, rows, inputs, inputs};
  const MatrixView yv{reinterpret_cast<std::byte*>(y.data()), DType::kF32, rows, outputs, outputs};
  Kernels& kernels = activation_bits == 8 ? *m.kernels_in_8_bits : *m.kernels;
  kernels.linear(xv, weights.panels, nullptr, yv, Epilogue::kStore);
  m.finish();
  const double begin = processor_seconds();
  for (auto _ : state) {
    kernels.linear(xv, weights.panels, nullptr, yv, Epilogue::kStore);
    m.finish();
  }
  const double seconds = (processor_seconds() - begin) / static_cast<double>(state.iterations());
  const double operations = 2.0 * static_cast<double>(rows * inputs * outputs);
  const double limit = activation_bits == 8 ? bare_seconds_in_8_bits(inputs, operations)
                                            : bare_seconds(rows, inputs, outputs);
  state.counters["op/s"] = operations / seconds;
  state.counters["limit"] = operations / limit;
  state.counters["ratio"] = limit / seconds;
}
const std::vector<std::vector<std::int64_t>> kShapes = {{2048}, {5632}, {64, 128, 512, 1024, 4096}};
BENCHMARK_CAPTURE(Linear, q4, WeightFormat{Encoding::kQ4, 64})
    ->ArgsProduct(kShapes)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, q4_in_8_bits, WeightFormat{Encoding::kQ4, 64}, 8)
    ->ArgsProduct(kShapes)
    ->Args({2048, 2048, 64})
    ->Args({5632, 2048, 64})
    ->Args({5632, 2048, 1024})
    ->Args({2048, 256, 64})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, q8_in_8_bits, WeightFormat{Encoding::kQ8, 32}, 8)
    ->Args({2048, 5632, 64})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, q4_output, WeightFormat{Encoding::kQ4, 64, GroupAxis::kOutput})
    ->Args({2048, 5632, 64})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, q8, WeightFormat{Encoding::kQ8, 32})
    ->Args({2048, 5632, 64})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, bf16, WeightFormat{Encoding::kBF16})
    ->Args({2048, 5632, 64})
    ->Args({2048, 960, 1408})  // a panel of 4 MiB
    ->Args({5632, 320, 1408})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, q4_wide, WeightFormat{Encoding::kQ4, 64})
    ->Args({2048, 2048, 64})
    ->Args({5632, 2048, 64})
    ->Args({5632, 1024, 1024})
    ->Args({5632, 2048, 1024})
    ->Args({2048, 2816, 2176})
    ->Args({2048, 256, 64})
    ->Args({2048, 256, 4096})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, q4_smollm, WeightFormat{Encoding::kQ4, 32})
    ->Args({576, 1536, 64})
    ->Args({1536, 576, 64})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// One thread, into a tile that is in the cache.
void DequantiseTile(benchmark::State& state, const WeightFormat& format) {
  constexpr std::int64_t kInputs = 2048, kOutputs = 1024;
  const Weights weights(format, kOutputs, kInputs);
  const ChannelMap channels(weights.panels);
  const auto product = make_product(kInputs, preferred_compute_type(), 1);
  std::vector<std::byte> tile(product->layout().bytes + 256);
  std::int64_t first = 0;
  const double begin = processor_seconds();
  for (auto _ : state) {
    dequantise_tile(channels, first, product->layout(), product->round(), tile.data());
    first = (first + kTileChannels) % kOutputs;
  }
  const double seconds = (processor_seconds() - begin) / static_cast<double>(state.iterations());
  state.counters["weights/s"] = kInputs * kTileChannels / seconds;
  // Of a product of one row tile: how much of its time decoding takes where rows are few.
  state.counters["of a 64-row product"] = seconds / bare_seconds(64, kInputs, kTileChannels);
}
BENCHMARK_CAPTURE(DequantiseTile, q4_64, WeightFormat{Encoding::kQ4, 64});
BENCHMARK_CAPTURE(DequantiseTile, q4_32, WeightFormat{Encoding::kQ4, 32});
BENCHMARK_CAPTURE(DequantiseTile, q4_64_output,
                  WeightFormat{Encoding::kQ4, 64, GroupAxis::kOutput});
BENCHMARK_CAPTURE(DequantiseTile, q8_32, WeightFormat{Encoding::kQ8, 32});
BENCHMARK_CAPTURE(DequantiseTile, bf16, WeightFormat{Encoding::kBF16});
BENCHMARK_CAPTURE(DequantiseTile, f16, WeightFormat{Encoding::kF16});

}  // namespace
}  // namespace barge::bench

BENCHMARK_MAIN();
