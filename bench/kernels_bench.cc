// What the kernels reach of what the machine could do. `kernels_bench --benchmark_filter=Linear`
// "limit" is bare oneDNN on the same shapes and threads (blocked weights of the compute type that
// are in memory already), measured in the same process. Rates and ratios are per second of
// processor time, all threads together, so that they hold on a machine that does other things too;
// the Time column is what the clock says.
#include <benchmark/benchmark.h>
#include <time.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "kernels/cpu/dequantise.h"
#include "kernels/cpu/product.h"
#include "kernels/kernels.h"
#include "quant/codec.h"

namespace barge {
namespace {

std::vector<float> numbers(std::int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& x : all) x = normal(random);
  return all;
}

// Seconds of processor time that this process has used.
double processor_seconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

struct Machine {
  Budgets budgets{4_GiB, 4_GiB, 0};
  CpuDevice device{{}, budgets};
  std::unique_ptr<Kernels> kernels =
      make_cpu_kernels(device, {preferred_compute_type(), 1 << 16, 8192, 32, 128});

  void finish() { device.compute().record().wait(); }
};

Machine& machine() {
  static Machine instance;
  return instance;
}

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

// Processor seconds that the bare products of a linear take: all tiles, weights ready in memory.
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

void Linear(benchmark::State& state, const WeightFormat& format) {
  const std::int64_t inputs = state.range(0), outputs = state.range(1), rows = state.range(2);
  Machine& m = machine();
  const Weights weights(format, outputs, inputs);
  const DType type = preferred_compute_type();
  std::vector<std::byte> x(static_cast<std::size_t>(rows * inputs) * size_of(type));
  std::vector<float> y(static_cast<std::size_t>(rows * outputs));
  const MatrixView xv{x.data(), type, rows, inputs, inputs};
  const MatrixView yv{reinterpret_cast<std::byte*>(y.data()), DType::kF32, rows, outputs, outputs};
  m.kernels->linear(xv, weights.panels, nullptr, yv, Epilogue::kStore);
  m.finish();
  const double begin = processor_seconds();
  for (auto _ : state) {
    m.kernels->linear(xv, weights.panels, nullptr, yv, Epilogue::kStore);
    m.finish();
  }
  const double seconds = (processor_seconds() - begin) / static_cast<double>(state.iterations());
  const double operations = 2.0 * static_cast<double>(rows * inputs * outputs);
  const double limit = bare_seconds(rows, inputs, outputs);
  state.counters["op/s"] = operations / seconds;
  state.counters["limit"] = operations / limit;
  state.counters["ratio"] = limit / seconds;
}
const std::vector<std::vector<std::int64_t>> kShapes = {{2048}, {5632}, {64, 128, 512, 1024, 4096}};
BENCHMARK_CAPTURE(Linear, q4, WeightFormat{Encoding::kQ4, 64})
    ->ArgsProduct(kShapes)
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
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Linear, q4_wide, WeightFormat{Encoding::kQ4, 64})
    ->Args({5632, 2048, 64})
    ->Args({5632, 2048, 1024})
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
  for (auto _ : state) {
    dequantise_tile(channels, first, product->layout(), product->round(), tile.data());
    first = (first + kTileChannels) % kOutputs;
  }
  state.counters["weights/s"] =
      benchmark::Counter(kInputs * kTileChannels, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(DequantiseTile, q4_64, WeightFormat{Encoding::kQ4, 64});
BENCHMARK_CAPTURE(DequantiseTile, q4_32, WeightFormat{Encoding::kQ4, 32});
BENCHMARK_CAPTURE(DequantiseTile, q4_64_output,
                  WeightFormat{Encoding::kQ4, 64, GroupAxis::kOutput});
BENCHMARK_CAPTURE(DequantiseTile, q8_32, WeightFormat{Encoding::kQ8, 32});
BENCHMARK_CAPTURE(DequantiseTile, bf16, WeightFormat{Encoding::kBF16});
BENCHMARK_CAPTURE(DequantiseTile, f16, WeightFormat{Encoding::kF16});

// 64 sequences of TinyLlama's shape: 32 heads of 64 on 4 KV heads.
void Attend(benchmark::State& state, Encoding encoding) {
  const auto rows = static_cast<std::int32_t>(state.range(0));
  const auto before = static_cast<std::int32_t>(state.range(1));
  constexpr int kSequences = 64, kHeads = 32, kPage = 32;
  const KvFormat format{encoding, 4, 64, 64};
  Machine& m = machine();
  const int pages_each = (before + rows + kPage - 1) / kPage;
  std::vector<std::byte> memory(format.record_bytes() * kPage *
                                static_cast<std::size_t>(pages_each) * kSequences);
  std::vector<std::byte*> pages;
  for (int i = 0; i < pages_each * kSequences; ++i)
    pages.push_back(memory.data() + format.record_bytes() * kPage * static_cast<std::size_t>(i));
  std::vector<AttentionSpan> spans;
  for (int s = 0; s < kSequences; ++s)
    spans.push_back({s * rows, rows, before, rows > 1,
                     std::span(pages).subspan(static_cast<std::size_t>(s * pages_each),
                                              static_cast<std::size_t>(pages_each))});
  auto q = numbers(std::int64_t{kSequences} * rows * kHeads * 64), out = q;
  const MatrixView qv{reinterpret_cast<std::byte*>(q.data()), DType::kF32, kSequences * rows,
                      kHeads * 64, kHeads * 64};
  MatrixView ov = qv;
  ov.data = reinterpret_cast<std::byte*>(out.data());
  const double begin = processor_seconds();
  for (auto _ : state) {
    m.kernels->attend(format, kPage, spans, kHeads, 0.125f, qv, ov);
    m.finish();
  }
  const double seconds = (processor_seconds() - begin) / static_cast<double>(state.iterations());
  const double keys = rows * (before + (rows + 1) / 2.0);
  state.counters["op/s"] = 4.0 * 64 * kHeads * kSequences * keys / seconds;
  state.counters["kv_bytes/s"] =
      static_cast<double>(format.record_bytes()) * kSequences * (before + rows) / seconds;
}
BENCHMARK_CAPTURE(Attend, f16, Encoding::kF16)
    ->Args({128, 0})
    ->Args({1, 144})
    ->Args({1, 2048})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Attend, q4, Encoding::kQ4)
    ->Args({128, 0})
    ->Args({1, 144})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void Rowwise(benchmark::State& state, int which) {
  constexpr std::int64_t kRows = 1024, kCols = 2048;
  Machine& m = machine();
  auto x = numbers(kRows * kCols), weight = numbers(kCols);
  std::vector<BF16> y(x.size());
  std::vector<std::int32_t> positions(kRows, 100);
  const std::vector<float> frequencies(32, 0.01f);
  const MatrixView xv{reinterpret_cast<std::byte*>(x.data()), DType::kF32, kRows, kCols, kCols};
  const MatrixView yv{reinterpret_cast<std::byte*>(y.data()), DType::kBF16, kRows, kCols, kCols};
  const double begin = processor_seconds();
  for (auto _ : state) {
    if (which == 0) m.kernels->rms_norm(xv, weight.data(), 1e-5f, yv);
    if (which == 1) m.kernels->rope(xv, 64, positions, frequencies);
    if (which == 2) m.kernels->activate(Kernels::Activation::kSilu, xv, xv, yv);
    m.finish();
  }
  state.counters["numbers/s"] =
      static_cast<double>(kRows * kCols * state.iterations()) / (processor_seconds() - begin);
}
BENCHMARK_CAPTURE(Rowwise, rms_norm, 0)->UseRealTime();
BENCHMARK_CAPTURE(Rowwise, rope, 1)->UseRealTime();
BENCHMARK_CAPTURE(Rowwise, silu, 2)->UseRealTime();

}  // namespace
}  // namespace barge

BENCHMARK_MAIN();
