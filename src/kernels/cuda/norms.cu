// RMS norm and layer norm: a block a row, which it reads once and keeps in registers.
#include <algorithm>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"

namespace barge::cuda {
namespace {

constexpr int kMaxThreads = 1024;

struct Norm {
  MatrixView x;
  const float *weight, *bias;  // bias: layer norm only
  float eps;
  MatrixView y;
  bool wide;
};

__device__ Eight load_vector(const float* from, const Norm& norm, std::int64_t c) {
  const auto* at = reinterpret_cast<const std::byte*>(from + c);
  return load_as<DType::kF32>(
      at, static_cast<int>(norm.x.cols - c < kEight ? norm.x.cols - c : kEight), norm.wide);
}

// kItems times eight numbers a thread, as far as the row goes.
template <int kItems, bool kCentre>
__global__ void __launch_bounds__(kMaxThreads) norm_kernel(Norm norm) {
  __shared__ float sums[kWarp], squares[kWarp];
  const std::int64_t row = blockIdx.x, cols = norm.x.cols;
  Eight held[kItems];
  float mean = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const std::int64_t c = (std::int64_t{item} * blockDim.x + threadIdx.x) * kEight;
    held[item] = c < cols ? load_eight(norm.x, row, c, norm.wide) : Eight{};
    if constexpr (kCentre)
      for (const float x : held[item].x) mean += x;
  }
  if constexpr (kCentre) mean = block_sum(mean, sums) / static_cast<float>(cols);

  float square_sum = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const std::int64_t c = (std::int64_t{item} * blockDim.x + threadIdx.x) * kEight;
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      if (kCentre && c + i < cols) held[item].x[i] -= mean;  // what lies past the row stays 0
      square_sum += held[item].x[i] * held[item].x[i];
    }
  }
  const float variance = block_sum(square_sum, squares) / static_cast<float>(cols);
  const float factor = 1.0f / sqrtf(variance + norm.eps);

#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const std::int64_t c = (std::int64_t{item} * blockDim.x + threadIdx.x) * kEight;
    if (c >= cols) break;
    const Eight weight = load_vector(norm.weight, norm, c);
    const Eight bias = kCentre ? load_vector(norm.bias, norm, c) : Eight{};
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      held[item].x[i] *= factor * weight.x[i];
      if (kCentre) held[item].x[i] += bias.x[i];
    }
    store_eight(norm.y, row, c, held[item], norm.wide);
  }
}

// The number of threads, and with it the order of a row's sums, follows from its width alone.
template <bool kCentre>
void run(cudaStream_t stream, Norm norm) {
  constexpr int kFew = 2, kMany = 4;
  if (norm.x.rows == 0 || norm.x.cols == 0) return;
  norm.wide = is_wide(norm.x) && is_wide(norm.y) && is_wide(norm.weight) &&
              (norm.bias == nullptr || is_wide(norm.bias));
  const std::size_t pieces = divide_up(static_cast<std::size_t>(norm.x.cols), kEight);
  const std::size_t few = round_up(divide_up(pieces, kFew), kWarp);
  const std::size_t many = round_up(divide_up(pieces, kMany), kWarp);
  if (many > kMaxThreads)
    throw DeviceError(concat("a norm of rows of ", norm.x.cols, " numbers: at most ",
                             kMaxThreads * kMany * kEight, " are supported"));
  const dim3 grid(static_cast<unsigned>(norm.x.rows));
  if (few <= kMaxThreads)
    launch({grid, dim3(static_cast<unsigned>(few)), stream}, norm_kernel<kFew, kCentre>, norm);
  else
    launch({grid, dim3(static_cast<unsigned>(many)), stream}, norm_kernel<kMany, kCentre>, norm);
}

}  // namespace

void rms_norm(cudaStream_t stream, MatrixView x, const float* weight, float eps, MatrixView y) {
  run<false>(stream, {x, weight, nullptr, eps, y, false});
}

void layer_norm(cudaStream_t stream, MatrixView x, const float* weight, const float* bias,
                float eps, MatrixView y) {
  run<true>(stream, {x, weight, bias, eps, y, false});
}

}  // namespace barge::cuda
