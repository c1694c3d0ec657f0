// Rotary embedding, activations, lookups of rows and biases: read once, written once.
#include <algorithm>

#include "core/bytes.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/operations.h"

namespace barge::cuda {
namespace {

constexpr std::size_t kWarpThreads = 32, kMostThreads = 256;

// One thread for each `kEight` columns: a row along x, blocks of its columns along y.
Launch row_launch(cudaStream_t stream, std::int64_t rows, std::int64_t cols) {
  const std::size_t pieces = divide_up(static_cast<std::size_t>(cols), kEight);
  const std::size_t threads = std::min(round_up(pieces, kWarpThreads), kMostThreads);
  return {dim3(static_cast<unsigned>(rows), blocks_for(pieces, threads)),
          dim3(static_cast<unsigned>(threads)), stream};
}
__device__ std::int64_t first_column() {
  return (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kEight;
}

constexpr int kRopeHeads = 4;  // that share a sine and a cosine

struct Rope {
  MatrixView x;
  int half, head_groups;
  const std::int32_t* positions;
  const float* inverse_frequencies;
};

// A thread turns one pair of dimensions in kRopeHeads heads of a row.
__global__ void rope_kernel(Rope rope) {
  const std::int64_t row = blockIdx.x;
  const unsigned at = blockIdx.y * blockDim.x + threadIdx.x;
  if (at >= static_cast<unsigned>(rope.half * rope.head_groups)) return;
  const int i = static_cast<int>(at) % rope.half, group = static_cast<int>(at) / rope.half;
  // The angle in f32, as the models were trained with; it may be thousands of turns.
  float sine, cosine;
  sincosf(static_cast<float>(rope.positions[row]) * rope.inverse_frequencies[i], &sine, &cosine);
  float* x = reinterpret_cast<float*>(number_at(rope.x, row, 0));
#pragma unroll
  for (int k = 0; k < kRopeHeads; ++k) {
    const std::int64_t low = std::int64_t{group * kRopeHeads + k} * 2 * rope.half + i;
    if (low >= rope.x.cols) return;
    const float a = x[low], b = x[low + rope.half];
    x[low] = a * cosine - b * sine;
    x[low + rope.half] = b * cosine + a * sine;
  }
}

template <Kernels::Activation kActivation>
__device__ float activated(float x) {
  if constexpr (kActivation == Kernels::Activation::kSilu) return x / (1.0f + expf(-x));
  if constexpr (kActivation == Kernels::Activation::kRelu) return fmaxf(x, 0.0f);
  if constexpr (kActivation == Kernels::Activation::kGeluTanh)
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
}

// y may be gate or up: each thread reads its numbers before it writes them.
template <Kernels::Activation kActivation>
__global__ void activate_kernel(MatrixView gate, MatrixView up, MatrixView y, bool wide) {
  const std::int64_t row = blockIdx.x, c = first_column();
  if (c >= y.cols) return;
  Eight x = load_eight(gate, row, c, wide);
#pragma unroll
  for (float& number : x.x) number = activated<kActivation>(number);
  if (up.data != nullptr) {
    const Eight factor = load_eight(up, row, c, wide);
#pragma unroll
    for (int i = 0; i < kEight; ++i) x.x[i] *= factor.x[i];
  }
  store_eight(y, row, c, x, wide);
}

__global__ void gather_rows_kernel(MatrixView x, const std::int32_t* rows, MatrixView y,
                                   bool wide) {
  const std::int64_t row = blockIdx.x, c = first_column();
  if (c < y.cols) store_eight(y, row, c, load_eight(x, rows[row], c, wide), wide);
}

__global__ void add_bias_kernel(const float* bias, MatrixView y, bool add, bool wide) {
  const std::int64_t row = blockIdx.x, c = first_column();
  if (c >= y.cols) return;
  const int count = static_cast<int>(y.cols - c < kEight ? y.cols - c : kEight);
  Eight sum = load_as<DType::kF32>(reinterpret_cast<const std::byte*>(bias + c), count, wide);
  if (add) {
    const Eight there = load_eight(y, row, c, wide);
#pragma unroll
    for (int i = 0; i < kEight; ++i) sum.x[i] += there.x[i];
  }
  store_eight(y, row, c, sum, wide);
}

}  // namespace

void rope(cudaStream_t stream, MatrixView x, int head_dim, const std::int32_t* positions,
          const float* inverse_frequencies) {
  const int half = head_dim / 2;
  const auto heads = static_cast<std::size_t>(x.cols / head_dim);
  const auto groups = divide_up(heads, kRopeHeads);
  const std::size_t pairs = static_cast<std::size_t>(half) * groups;
  if (x.rows == 0 || pairs == 0) return;
  const std::size_t threads = std::min(round_up(pairs, kWarpThreads), kMostThreads);
  launch({dim3(static_cast<unsigned>(x.rows), blocks_for(pairs, threads)),
          dim3(static_cast<unsigned>(threads)), stream},
         rope_kernel, Rope{x, half, static_cast<int>(groups), positions, inverse_frequencies});
}

void activate(cudaStream_t stream, Kernels::Activation activation, MatrixView gate, MatrixView up,
              MatrixView y) {
  if (y.rows == 0 || y.cols == 0) return;
  const bool wide = is_wide(gate) && is_wide(y) && (up.data == nullptr || is_wide(up));
  const Launch on = row_launch(stream, y.rows, y.cols);
  switch (activation) {
    case Kernels::Activation::kSilu:
      return launch(on, activate_kernel<Kernels::Activation::kSilu>, gate, up, y, wide);
    case Kernels::Activation::kRelu:
      return launch(on, activate_kernel<Kernels::Activation::kRelu>, gate, up, y, wide);
    case Kernels::Activation::kGeluTanh:
      return launch(on, activate_kernel<Kernels::Activation::kGeluTanh>, gate, up, y, wide);
    case Kernels::Activation::kGeluErf:
      return launch(on, activate_kernel<Kernels::Activation::kGeluErf>, gate, up, y, wide);
  }
}

void gather_rows(cudaStream_t stream, MatrixView x, const std::int32_t* rows, MatrixView y) {
  if (y.rows == 0 || y.cols == 0) return;
  launch(row_launch(stream, y.rows, y.cols), gather_rows_kernel, x, rows, y,
         is_wide(x) && is_wide(y));
}

void add_bias(cudaStream_t stream, const float* bias, MatrixView y, Epilogue epilogue) {
  if (y.rows == 0 || y.cols == 0) return;
  launch(row_launch(stream, y.rows, y.cols), add_bias_kernel, bias, y, epilogue == Epilogue::kAdd,
         is_wide(bias) && is_wide(y));
}

}  // namespace barge::cuda
