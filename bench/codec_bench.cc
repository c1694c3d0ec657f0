// The codec on one thread: what packs are written with (encode_panel), read back with
// (decode_panel_row), and what each new position of the KV cache goes through (append_record, as
// the kernels of the CPU call it). "bytes/s" counts the f32 side, the larger one; "limit" is one
// thread that reads memory with plain loads, measured in the same process: a codec at its limit
// would only stream. `codec_bench --benchmark_filter=Append`
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "bench/memory_limit.h"
#include "kernels/cpu/kv_append.h"
#include "quant/codec.h"

namespace barge::bench {
namespace {

// More than the second-level cache holds, as a panel of a real model.
constexpr std::int64_t kRows = 512, kCols = 2048;

std::vector<float> numbers(std::int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& x : all) x = normal(random);
  return all;
}

double limit() {
  static const double rate = memory_read_rate(1);
  return rate;
}

// Runs `work` once an iteration; it moves so many bytes.
template <typename Work>
void run(benchmark::State& state, double bytes, const Work& work) {
  limit();
  const double begin = processor_seconds();
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes, processor_seconds() - begin, limit());
}

void EncodePanel(benchmark::State& state, const WeightFormat& format) {
  const PanelLayout layout = panel_layout(format, kRows, kCols);
  const std::vector<float> rows = numbers(kRows * kCols);
  std::vector<std::byte> panel(layout.bytes);
  run(state, sizeof(float) * kRows * kCols, [&] { encode_panel(layout, rows, panel); });
}

void DecodePanel(benchmark::State& state, const WeightFormat& format) {
  const PanelLayout layout = panel_layout(format, kRows, kCols);
  std::vector<float> rows = numbers(kRows * kCols);
  std::vector<std::byte> panel(layout.bytes);
  encode_panel(layout, rows, panel);
  run(state, sizeof(float) * kRows * kCols, [&] {
    for (std::int64_t row = 0; row < kRows; ++row)
      decode_panel_row(layout, panel, row,
                       std::span(rows).subspan(static_cast<std::size_t>(row * kCols), kCols));
  });
}

// TinyLlama's shape: 4 KV heads of 64; 1024 positions.
void AppendKv(benchmark::State& state, Encoding encoding) {
  constexpr std::int64_t kPositions = 1024, kNumbers = 4 * 64;
  const KvFormat format{encoding, 4, 64, 64};
  const std::vector<float> k = numbers(kPositions * kNumbers), v = k;
  std::vector<std::byte> records(format.record_bytes() * kPositions);
  run(state, 2 * sizeof(float) * kPositions * kNumbers, [&] {
    for (std::int64_t p = 0; p < kPositions; ++p)
      append_record(format, k.data() + p * kNumbers, v.data() + p * kNumbers,
                    records.data() + static_cast<std::size_t>(p) * format.record_bytes());
  });
}

void DecodeKv(benchmark::State& state, Encoding encoding) {
  constexpr std::int64_t kPositions = 1024, kNumbers = 4 * 64;
  const KvFormat format{encoding, 4, 64, 64};
  std::vector<float> k = numbers(kNumbers), v = k;
  std::vector<std::byte> records(format.record_bytes() * kPositions);
  const auto record = [&](std::int64_t p) {
    return std::span(records).subspan(static_cast<std::size_t>(p) * format.record_bytes(),
                                      format.record_bytes());
  };
  for (std::int64_t p = 0; p < kPositions; ++p) encode_kv(format, k, v, record(p));
  run(state, 2 * sizeof(float) * kPositions * kNumbers, [&] {
    for (std::int64_t p = 0; p < kPositions; ++p) decode_kv(format, record(p), k, v);
  });
}

void add_panels(const std::string& name, const WeightFormat& format) {
  benchmark::RegisterBenchmark(("EncodePanel/" + name).c_str(), EncodePanel, format)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("DecodePanel/" + name).c_str(), DecodePanel, format)
      ->Unit(benchmark::kMillisecond);
}

void add_kv(const std::string& name, Encoding encoding) {
  benchmark::RegisterBenchmark(("AppendKv/" + name).c_str(), AppendKv, encoding)
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark(("DecodeKv/" + name).c_str(), DecodeKv, encoding)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace barge::bench

int main(int argc, char** argv) {
  using namespace barge;
  using namespace barge::bench;
  for (const int group : {32, 64, 128})
    for (const GroupAxis axis : {GroupAxis::kInput, GroupAxis::kOutput}) {
      const WeightFormat format{Encoding::kQ4, group, axis};
      add_panels(to_string(format), format);
    }
  for (const WeightFormat format :
       {WeightFormat{Encoding::kQ8, 32}, WeightFormat{Encoding::kQ8, 64},
        WeightFormat{Encoding::kBF16}, WeightFormat{Encoding::kF16}})
    add_panels(to_string(format), format);
  add_kv("q4", Encoding::kQ4);
  add_kv("f16", Encoding::kF16);
  add_kv("f32", Encoding::kF32);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
