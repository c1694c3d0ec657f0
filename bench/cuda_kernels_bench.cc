// What the row-wise kernels, those that decode and encode panels, and drawing reach of the GPU's
// memory: "limit" is a copy within its memory, measured in the same process. "GB/s" counts what a
// kernel must read and write. Where that is less than the GPU's cache (64 rows), the ratio may pass
// 1; where it is little, a launch takes longer than the bytes.
#include <random>
#include <string>
#include <vector>

#include "bench/cuda_timing.h"
#include "kernels/cuda/operations.h"

namespace barge::cuda {
namespace {

constexpr std::int64_t kHidden = 8192;

// A matrix on the device: ones, or nearly so.
class OwnedMatrix {
 public:
  OwnedMatrix(DType dtype, std::int64_t rows, std::int64_t cols)
      : bytes_(static_cast<std::size_t>(rows * cols) * size_of(dtype)),
        view_{bytes_.as<std::byte>(), dtype, rows, cols, cols} {
    check(cudaMemset(view_.data, 0x3c, bytes()), "cudaMemset");
  }

  const MatrixView& view() const { return view_; }
  const float* f32() const { return view_.row_as<float>(0); }
  std::size_t bytes() const {
    return static_cast<std::size_t>(view_.rows * view_.cols) * size_of(view_.dtype);
  }

 private:
  DeviceBytes bytes_;
  MatrixView view_;
};

template <typename T>
void upload(const DeviceBytes& to, const std::vector<T>& from) {
  check(cudaMemcpy(to.as<void>(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
        "cudaMemcpy");
}

void dequantise_panel(benchmark::State& state, const WeightFormat& format, std::int64_t rows,
                      DType to) {
  const auto layout = panel_layout(format, rows, kHidden);
  const DeviceBytes panel(layout.bytes);
  check(cudaMemset(panel.as<void>(), 0x2c, layout.bytes), "cudaMemset");
  const OwnedMatrix out(to, layout.rows, layout.cols);
  measure(state, static_cast<double>(layout.bytes + out.bytes()), [&](cudaStream_t stream) {
    dequantise(stream, {panel.as<std::byte>(), layout}, out.view());
  });
}

void quantise_panel(benchmark::State& state, const WeightFormat& format, std::int64_t rows) {
  const auto layout = panel_layout(format, rows, kHidden);
  const DeviceBytes panel(layout.bytes);
  const OwnedMatrix from(DType::kF32, layout.rows, layout.cols);
  measure(state, static_cast<double>(layout.bytes + from.bytes()), [&](cudaStream_t stream) {
    quantise(stream, layout, from.view(), panel.as<std::byte>());
  });
}

void norm(benchmark::State& state, std::int64_t rows, bool centre) {
  const OwnedMatrix x(DType::kF32, rows, kHidden), y(DType::kF16, rows, kHidden);
  const OwnedMatrix weight(DType::kF32, 1, kHidden), bias(DType::kF32, 1, kHidden);
  measure(state, static_cast<double>(x.bytes() + y.bytes()), [&](cudaStream_t stream) {
    if (centre)
      layer_norm(stream, x.view(), weight.f32(), bias.f32(), 1e-5f, y.view());
    else
      rms_norm(stream, x.view(), weight.f32(), 1e-5f, y.view());
  });
}

void activation(benchmark::State& state, std::int64_t rows, Kernels::Activation kind, bool gated) {
  const OwnedMatrix gate(DType::kF16, rows, kHidden), up(DType::kF16, rows, kHidden);
  const OwnedMatrix y(DType::kF16, rows, kHidden);
  measure(state, static_cast<double>((gated ? 3 : 2) * y.bytes()), [&](cudaStream_t stream) {
    activate(stream, kind, gate.view(), gated ? up.view() : MatrixView{}, y.view());
  });
}

void rotation(benchmark::State& state, std::int64_t rows) {
  const OwnedMatrix x(DType::kF32, rows, kHidden), frequencies(DType::kF32, 1, 64);
  std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i % 4096);
  const DeviceBytes positions(4 * all.size());
  upload(positions, all);
  measure(state, static_cast<double>(2 * x.bytes()), [&](cudaStream_t stream) {
    rope(stream, x.view(), 128, positions.as<std::int32_t>(), frequencies.f32());
  });
}

void gathering(benchmark::State& state, std::int64_t rows) {
  const OwnedMatrix x(DType::kF32, rows, kHidden), y(DType::kF32, rows, kHidden);
  std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::int32_t>(i * 7919 % all.size());
  const DeviceBytes list(4 * all.size());
  upload(list, all);
  measure(state, static_cast<double>(2 * y.bytes()), [&](cudaStream_t stream) {
    gather_rows(stream, x.view(), list.as<std::int32_t>(), y.view());
  });
}

void bias(benchmark::State& state, std::int64_t rows) {
  const OwnedMatrix y(DType::kF32, rows, kHidden), b(DType::kF32, 1, kHidden);
  measure(state, static_cast<double>(2 * y.bytes()),
          [&](cudaStream_t stream) { add_bias(stream, b.f32(), y.view(), Epilogue::kAdd); });
}

// The limit is one pass over the logits; drawing in their order makes about ten.
void drawing(benchmark::State& state, std::int64_t vocab, const DrawParams& kind) {
  constexpr std::int64_t kRows = 256;
  const OwnedMatrix logits(DType::kF32, kRows, vocab);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> row(static_cast<std::size_t>(vocab));
  for (float& x : row) x = normal(random);
  for (std::int64_t r = 0; r < kRows; ++r)
    check(cudaMemcpy(logits.view().row(r), row.data(), 4 * row.size(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  std::vector<DrawParams> all(kRows, kind);
  for (std::size_t r = 0; r < all.size(); ++r) all[r].uniform = static_cast<double>(r) / kRows;
  const DeviceBytes params(all.size() * sizeof(DrawParams)), ids(4 * all.size());
  upload(params, all);
  measure(state, static_cast<double>(logits.bytes()), [&](cudaStream_t stream) {
    draw(stream, logits.view(), params.as<DrawParams>(), ids.as<std::int32_t>());
  });
}

template <typename Body, typename... Arguments>
void add(const std::string& name, Body body, Arguments... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), body, arguments...)->UseManualTime();
}

// Panels of 4 MiB, as weights come, and matrices far larger than a cache.
void add_panels() {
  const WeightFormat formats[] = {{Encoding::kQ4, 64},
                                  {Encoding::kQ4, 64, GroupAxis::kOutput},
                                  {Encoding::kQ8, 64},
                                  {Encoding::kQ8, 64, GroupAxis::kOutput},
                                  {Encoding::kF16}};
  for (const WeightFormat& format : formats)
    for (const std::int64_t rows : {832, 28672}) {
      const std::string what = to_string(format) + "/" + std::to_string(rows);
      for (const DType to : {DType::kF16, DType::kBF16})
        add("dequantise/" + what + "/" + std::string(name_of(to)), dequantise_panel, format, rows,
            to);
      add("quantise/" + what, quantise_panel, format, rows);
    }
}

void add_rows() {
  using Activation = Kernels::Activation;
  for (const std::int64_t rows : {64, 8192}) {
    const std::string end = "/" + std::to_string(rows);
    add("rms_norm" + end, norm, rows, false);
    add("layer_norm" + end, norm, rows, true);
    add("silu_gated" + end, activation, rows, Activation::kSilu, true);
    add("relu" + end, activation, rows, Activation::kRelu, false);
    add("gelu_tanh" + end, activation, rows, Activation::kGeluTanh, false);
    add("gelu_erf" + end, activation, rows, Activation::kGeluErf, false);
    add("rope" + end, rotation, rows);
    add("gather_rows" + end, gathering, rows);
    add("add_bias" + end, bias, rows);
  }
}

void add_draws() {
  for (const std::int64_t vocab : {32000, 128256}) {
    const std::string end = "/" + std::to_string(vocab);
    add("draw/greedy" + end, drawing, vocab, DrawParams{.temperature = 0});
    add("draw/all" + end, drawing, vocab, DrawParams{});
    add("draw/top_k" + end, drawing, vocab, DrawParams{.top_k = 40});
    add("draw/top_p" + end, drawing, vocab, DrawParams{.top_p = 0.9f});
    add("draw/top_k_p" + end, drawing, vocab, DrawParams{.top_k = 40, .top_p = 0.9f});
  }
}

}  // namespace
}  // namespace barge::cuda

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  barge::cuda::add_panels();
  barge::cuda::add_rows();
  barge::cuda::add_draws();
  benchmark::RunSpecifiedBenchmarks();
}
