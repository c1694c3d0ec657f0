// The kernels beside `linear`: attention, KV append, look-up, norms and the like, draw.
#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/kernels_bench.h"
#include "quant/codec.h"

namespace barge::bench {
namespace {

MatrixView view(std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  return {reinterpret_cast<std::byte*>(x.data()), DType::kF32, rows, cols, cols};
}

MatrixView view(std::vector<BF16>& x, std::int64_t rows, std::int64_t cols) {
  return {reinterpret_cast<std::byte*>(x.data()), DType::kBF16, rows, cols, cols};
}

// Processor seconds that all iterations take.
double run(benchmark::State& state, const std::function<void(Kernels&)>& work) {
  Machine& m = machine();
  work(*m.kernels);
  m.finish();
  const double begin = processor_seconds();
  for (auto _ : state) {
    work(*m.kernels);
    m.finish();
  }
  return processor_seconds() - begin;
}

void stream(benchmark::State& state, double bytes, const std::function<void(Kernels&)>& work) {
  const double limit = memory_limit();
  count_bytes(state, bytes, run(state, work), limit);
}

// 64 sequences, 32 heads of 64: on 4 KV heads as TinyLlama has them, or each on its own.
class Attention {
 public:
  static constexpr int kSequences = 64, kHeads = 32, kHeadDim = 64, kPage = 32;

  Attention(Encoding encoding, int kv_heads, std::int32_t rows, std::int32_t before)
      : format{encoding, kv_heads, kHeadDim, 64} {
    const int pages_each = (before + rows + kPage - 1) / kPage;
    memory_.resize(format.record_bytes() * kPage * static_cast<std::size_t>(pages_each) *
                   kSequences);
    for (int i = 0; i < pages_each * kSequences; ++i)
      pages_.push_back(memory_.data() +
                       format.record_bytes() * kPage * static_cast<std::size_t>(i));
    for (int s = 0; s < kSequences; ++s)
      spans.push_back({s * rows, rows, before, rows > 1,
                       std::span(pages_).subspan(static_cast<std::size_t>(s * pages_each),
                                                 static_cast<std::size_t>(pages_each))});
  }

  const KvFormat format;
  std::vector<AttentionSpan> spans;

 private:
  std::vector<std::byte> memory_;
  std::vector<std::byte*> pages_;
};

// The limit of prompts is bare oneDNN, that of answers reading their keys and values once.
void Attend(benchmark::State& state, Encoding encoding) {
  const auto rows = static_cast<std::int32_t>(state.range(0));
  const auto before = static_cast<std::int32_t>(state.range(1));
  constexpr int kSequences = Attention::kSequences, kWidth = Attention::kHeads * 64;
  Attention attention(encoding, static_cast<int>(state.range(2)), rows, before);
  auto q = numbers(std::int64_t{kSequences} * rows * kWidth), out = q;
  const MatrixView queries = view(q, kSequences * rows, kWidth),
                   results = view(out, kSequences * rows, kWidth);
  const double all_seconds = run(state, [&](Kernels& kernels) {
    kernels.attend(attention.format, Attention::kPage, attention.spans, Attention::kHeads, 0.125f,
                   queries, results);
  });
  const double seconds = all_seconds / static_cast<double>(state.iterations());
  const double keys = rows * (before + (rows + 1) / 2.0);
  const double ops = 4.0 * kWidth * kSequences * keys / seconds;
  const double bytes =
      static_cast<double>(attention.format.record_bytes()) * kSequences * (before + rows) / seconds;
  state.counters["op/s"] = ops;
  state.counters["kv_bytes/s"] = bytes;
  static const double products = 2.0 * 512 * 2048 * 512 / bare_seconds(512, 2048, 512);
  const double limit = rows > 1 ? products : memory_limit();
  state.counters["limit"] = limit;
  state.counters["ratio"] = (rows > 1 ? ops : bytes) / limit;
}
BENCHMARK_CAPTURE(Attend, f16, Encoding::kF16)
    ->ArgNames({"rows", "before", "kv_heads"})
    ->Args({128, 0, 4})
    ->Args({512, 0, 4})
    ->Args({1, 144, 4})
    ->Args({1, 2048, 4})
    ->Args({1, 512, 32})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Attend, q4, Encoding::kQ4)
    ->ArgNames({"rows", "before", "kv_heads"})
    ->Args({128, 0, 4})
    ->Args({1, 144, 4})
    ->Args({1, 2048, 4})
    ->Args({1, 512, 32})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void AppendKv(benchmark::State& state, Encoding encoding) {
  constexpr std::int32_t kRows = 128;
  constexpr std::int64_t kAll = Attention::kSequences * kRows, kWidth = 4 * 64;
  Attention attention(encoding, 4, kRows, 0);
  auto k = numbers(kAll * kWidth), v = k;
  const double bytes =
      static_cast<double>(kAll) *
      (2 * kWidth * sizeof(float) + static_cast<double>(attention.format.record_bytes()));
  stream(state, bytes, [&](Kernels& kernels) {
    kernels.append_kv(attention.format, Attention::kPage, attention.spans, view(k, kAll, kWidth),
                      view(v, kAll, kWidth));
  });
}
BENCHMARK_CAPTURE(AppendKv, f16, Encoding::kF16)->UseRealTime();
BENCHMARK_CAPTURE(AppendKv, q4, Encoding::kQ4)->UseRealTime();

// Rows of the width of a model, 64 MiB: more than caches hold.
constexpr std::int64_t kRows = 8192, kCols = 2048;
constexpr double kIn = kRows * kCols * sizeof(float), kOut = kRows * kCols * sizeof(BF16);

struct Rows {
  std::vector<float> x = numbers(kRows * kCols), weight = numbers(kCols), z = x;
  std::vector<BF16> y = std::vector<BF16>(kRows * kCols);
};

void RmsNorm(benchmark::State& state) {
  Rows r;
  stream(state, kIn + kOut, [&](Kernels& kernels) {
    kernels.rms_norm(view(r.x, kRows, kCols), r.weight.data(), 1e-5f, view(r.y, kRows, kCols));
  });
}
BENCHMARK(RmsNorm)->UseRealTime();

void LayerNorm(benchmark::State& state) {
  Rows r;
  stream(state, kIn + kOut, [&](Kernels& kernels) {
    kernels.layer_norm(view(r.x, kRows, kCols), r.weight.data(), r.weight.data(), 1e-5f,
                       view(r.y, kRows, kCols));
  });
}
BENCHMARK(LayerNorm)->UseRealTime();

void Rope(benchmark::State& state) {
  Rows r;
  const std::vector<std::int32_t> positions(kRows, 100);
  const std::vector<float> frequencies(32, 0.01f);
  stream(state, 2 * kIn, [&](Kernels& kernels) {
    kernels.rope(view(r.x, kRows, kCols), 64, positions, frequencies);
  });
}
BENCHMARK(Rope)->UseRealTime();

void Activate(benchmark::State& state, Kernels::Activation activation) {
  Rows r;
  stream(state, 2 * kIn + kOut, [&](Kernels& kernels) {
    kernels.activate(activation, view(r.x, kRows, kCols), view(r.z, kRows, kCols),
                     view(r.y, kRows, kCols));
  });
}
BENCHMARK_CAPTURE(Activate, silu, Kernels::Activation::kSilu)->UseRealTime();
BENCHMARK_CAPTURE(Activate, relu, Kernels::Activation::kRelu)->UseRealTime();
BENCHMARK_CAPTURE(Activate, gelu_tanh, Kernels::Activation::kGeluTanh)->UseRealTime();
BENCHMARK_CAPTURE(Activate, gelu_erf, Kernels::Activation::kGeluErf)->UseRealTime();

void GatherRows(benchmark::State& state) {
  Rows r;
  std::vector<std::int32_t> rows;
  for (std::int32_t i = 0; i < kRows; ++i) rows.push_back(i * 7 % kRows);
  stream(state, 2 * kIn, [&](Kernels& kernels) {
    kernels.gather_rows(view(r.x, kRows, kCols), rows, view(r.z, kRows, kCols));
  });
}
BENCHMARK(GatherRows)->UseRealTime();

void DecodeRows(benchmark::State& state, const WeightFormat& format) {
  Rows r;
  const PanelLayout layout = panel_layout(format, kRows, kCols);
  std::vector<std::byte> panel(layout.bytes);
  encode_panel(layout, r.x, panel);
  stream(state, kIn + static_cast<double>(layout.bytes), [&](Kernels& kernels) {
    kernels.decode_rows({panel.data(), layout}, view(r.x, kRows, kCols), Epilogue::kStore);
  });
}
BENCHMARK_CAPTURE(DecodeRows, q4_64, WeightFormat{Encoding::kQ4, 64})->UseRealTime();
BENCHMARK_CAPTURE(DecodeRows, q8_32, WeightFormat{Encoding::kQ8, 32})->UseRealTime();
BENCHMARK_CAPTURE(DecodeRows, bf16, WeightFormat{Encoding::kBF16})->UseRealTime();

// 64 rows of logits, as SmolLM2's.
void Draw(benchmark::State& state, const DrawParams& params) {
  constexpr std::int64_t kSequences = 64, kVocab = 49152;
  auto logits = numbers(kSequences * kVocab);
  const std::vector<DrawParams> all(kSequences, params);
  std::vector<std::int32_t> ids(kSequences);
  stream(state, 1.0 * kSequences * kVocab * sizeof(float), [&](Kernels& kernels) {
    kernels.draw(view(logits, kSequences, kVocab), all, ids.data());
  });
}
BENCHMARK_CAPTURE(Draw, greedy, DrawParams{.temperature = 0})->UseRealTime();
BENCHMARK_CAPTURE(Draw, all, DrawParams{.uniform = 0.5})->UseRealTime();
BENCHMARK_CAPTURE(Draw, top_p, DrawParams{.top_p = 0.9f, .uniform = 0.5})->UseRealTime();
BENCHMARK_CAPTURE(Draw, top_k, DrawParams{.top_k = 40, .uniform = 0.5})->UseRealTime();

}  // namespace
}  // namespace barge::bench
