#include "kernels/cuda/row_tile.h"

#include <algorithm>

#include "kernels/cuda/launch.h"

namespace barge::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second dimension

// Rows [rows, cols] of whole words of T, `stride` words apart.
template <typename T>
struct Words {
  T* data;
  std::int64_t rows, cols, stride;
};

// One column a thread; rows are spread over blockIdx.y.
template <typename T>
__global__ void copy_rows_kernel(Words<const T> from, Words<T> to) {
  const std::int64_t col = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (col >= to.cols) return;
  for (std::int64_t row = blockIdx.y; row < to.rows; row += gridDim.y)
    to.data[row * to.stride + col] = from.data[row % from.rows * from.stride + col];
}

template <typename T>
__global__ void count_differences_kernel(Words<const T> a, Words<const T> b, std::uint32_t* count) {
  const std::int64_t col = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (col >= a.cols) return;
  for (std::int64_t row = blockIdx.y; row < a.rows; row += gridDim.y)
    if (a.data[row * a.stride + col] != b.data[row * b.stride + col]) atomicAdd(count, 1U);
}

template <typename T>
Words<T> words(const MatrixView& matrix) {
  return {reinterpret_cast<T*>(matrix.data), matrix.rows, matrix.cols, matrix.stride};
}

Launch one_thread_a_column(cudaStream_t stream, const MatrixView& matrix) {
  return {.grid = dim3(blocks_for(static_cast<std::size_t>(matrix.cols), kThreads),
                       static_cast<unsigned>(std::min(matrix.rows, kMostBlocks))),
          .block = dim3(kThreads),
          .stream = stream};
}

}  // namespace

void copy_rows(cudaStream_t stream, MatrixView from, MatrixView to) {
  if (to.rows == 0 || to.cols == 0) return;
  const Launch launch_on = one_thread_a_column(stream, to);
  if (size_of(to.dtype) == 4)
    launch(launch_on, copy_rows_kernel<std::uint32_t>, words<const std::uint32_t>(from),
           words<std::uint32_t>(to));
  else
    launch(launch_on, copy_rows_kernel<std::uint16_t>, words<const std::uint16_t>(from),
           words<std::uint16_t>(to));
}

void count_differences(cudaStream_t stream, MatrixView a, MatrixView b, std::uint32_t* count) {
  if (a.rows == 0 || a.cols == 0) return;
  const Launch launch_on = one_thread_a_column(stream, a);
  if (size_of(a.dtype) == 4)
    launch(launch_on, count_differences_kernel<std::uint32_t>, words<const std::uint32_t>(a),
           words<const std::uint32_t>(b), count);
  else
    launch(launch_on, count_differences_kernel<std::uint16_t>, words<const std::uint16_t>(a),
           words<const std::uint16_t>(b), count);
}

}  // namespace barge::cuda
