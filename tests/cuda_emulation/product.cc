#include "product.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace cuda_emulation {
namespace {

std::size_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

float number_at(const void* data, cudaDataType type, std::size_t at) {
  switch (type) {
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[at]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}
void set_number(void* data, cudaDataType type, std::size_t at, float x) {
  switch (type) {
    case CUDA_R_16F:
      static_cast<__half*>(data)[at] = __float2half_rn(x);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(x);
      break;
    default:
      static_cast<float*>(data)[at] = x;
  }
}

template <typename T>
void convert(const T* from, std::uint64_t count, float* to) {
  for (std::uint64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

/// Column `col` of a matrix, or its row where `transposed`: `count` numbers.
void take_column(const MatrixLayout& layout, const void* data, bool transposed, std::uint64_t col,
                 std::uint64_t count, float* to) {
  const auto stride = static_cast<std::size_t>(layout.stride);
  if (transposed) {
    for (std::uint64_t i = 0; i < count; ++i)
      to[i] = number_at(data, layout.type, i * stride + col);
    return;
  }
  const std::byte* from = static_cast<const std::byte*>(data) + col * stride * size_of(layout.type);
  switch (layout.type) {
    case CUDA_R_16F:
      return convert(reinterpret_cast<const __half*>(from), count, to);
    case CUDA_R_16BF:
      return convert(reinterpret_cast<const __nv_bfloat16*>(from), count, to);
    default:
      return convert(reinterpret_cast<const float*>(from), count, to);
  }
}

}  // namespace

std::uint64_t MatrixLayout::bytes() const {
  if (rows == 0 || cols == 0) return 0;
  return ((cols - 1) * static_cast<std::uint64_t>(stride) + rows) * size_of(type);
}

void Product::run() const {
  const std::uint64_t m = d.rows, k = inner();
  // op(A) as [k][m]: the innermost loop runs along m, each sum along k in order.
  std::vector<float> left(k * m), column(k), sums(m), slice_sums(m);
  if (transpose_a) {
    std::vector<float> row(k);
    for (std::uint64_t i = 0; i < m; ++i) {
      take_column(a, a_data, false, i, k, row.data());
      for (std::uint64_t l = 0; l < k; ++l) left[l * m + i] = row[l];
    }
  } else {
    for (std::uint64_t l = 0; l < k; ++l) take_column(a, a_data, false, l, m, &left[l * m]);
  }
  for (std::uint64_t j = 0; j < d.cols; ++j) {
    take_column(b, b_data, transpose_b, j, k, column.data());
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::uint64_t slice = 0; slice < slices; ++slice) {
      std::fill(slice_sums.begin(), slice_sums.end(), 0.0f);
      for (std::uint64_t l = k * slice / slices; l < k * (slice + 1) / slices; ++l) {
        const float x = column[l];
        const float* along = &left[l * m];
        for (std::uint64_t i = 0; i < m; ++i) slice_sums[i] += along[i] * x;
      }
      for (std::uint64_t i = 0; i < m; ++i) sums[i] += slice_sums[i];
    }
    for (std::uint64_t i = 0; i < m; ++i) {
      float y = alpha * sums[i];
      if (beta != 0)  // else C isn't read, whatever is there
        y += beta * number_at(c_data, c.type, j * static_cast<std::uint64_t>(c.stride) + i);
      if (bias != nullptr) y += number_at(bias, bias_type, i);
      set_number(d_data, d.type, j * static_cast<std::uint64_t>(d.stride) + i, y);
    }
  }
}

}  // namespace cuda_emulation
