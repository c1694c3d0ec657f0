#pragma once

#include <cstdint>

#include "library_types.h"

namespace cuda_emulation {

/// A column-major matrix.
struct MatrixLayout {
  cudaDataType type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t stride = 0;

  std::uint64_t bytes() const;
};

/// D = alpha op(A) op(B) + beta C + bias, bias one number a row of D. Sums are in f32, over the
/// inner dimension in order; `slices` (split-K) sums that many pieces of it by themselves first.
struct Product {
  MatrixLayout a, b, c, d;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  const void *a_data = nullptr, *b_data = nullptr, *c_data = nullptr;
  void* d_data = nullptr;
  const void* bias = nullptr;
  cudaDataType bias_type = CUDA_R_32F;
  std::uint64_t slices = 1;

  std::uint64_t inner() const { return transpose_a ? a.rows : a.cols; }
  void run() const;
};

}  // namespace cuda_emulation
