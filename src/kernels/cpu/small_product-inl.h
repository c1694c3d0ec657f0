// Products of f32 matrices that are in the first-level cache, compiled once for each instruction
// set.
#if defined(BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_
#undef BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_
#else
#define BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

// Rows whose sums are in registers together, two vectors of each, beside the two of b that they are
// multiplied by. Few loads a multiply-add, and more than the eight sums that hide its latency.
// With 16 registers six rows fit; with AVX-512's 32 more would, but not the addresses of more.
inline constexpr int kProductRows = kLanes == 16 ? 8 : 6;

// A function of its own, so that its loop has the processor's registers to itself.
template <int kRows, int kVectors>
HWY_NOINLINE void multiply_block(const float* a, std::int64_t a_stride, const float* b,
                                 std::int64_t b_stride, float* c, std::int64_t c_stride,
                                 std::int64_t inner, bool add) {
  const F32Tag d;
  F32Vec sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = add ? load(c + r * c_stride + v * static_cast<int>(kLanes)) : hn::Zero(d);
  for (std::int64_t i = 0; i < inner; ++i, b += b_stride) {
    F32Vec columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = load(b + v * static_cast<int>(kLanes));
    for (int r = 0; r < kRows; ++r) {
      const F32Vec factor = hn::Set(d, a[r * a_stride + i]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      store(sums[r][v], c + r * c_stride + v * static_cast<int>(kLanes));
}

// multiply_block with that many rows, at most kRows.
template <int kRows>
HWY_INLINE void multiply_some(std::int64_t rows, const float* a, std::int64_t a_stride,
                              const float* b, std::int64_t b_stride, float* c,
                              std::int64_t c_stride, std::int64_t inner, bool add) {
  if constexpr (kRows > 0) {
    if (rows == kRows)
      multiply_block<kRows, 2>(a, a_stride, b, b_stride, c, c_stride, inner, add);
    else
      multiply_some<kRows - 1>(rows, a, a_stride, b, b_stride, c, c_stride, inner, add);
  }
}

// c [rows, cols] (+)= a [rows, inner] * b [inner, cols]; cols is a multiple of two vectors. Every
// number of c is summed in the order of `inner`, whatever `rows` is.
inline void multiply_rows(const float* a, std::int64_t a_stride, const float* b,
                          std::int64_t b_stride, float* c, std::int64_t c_stride, std::int64_t rows,
                          std::int64_t inner, std::int64_t cols, bool add) {
  if (rows == 0) return;
  const auto two = 2 * static_cast<std::int64_t>(kLanes);
  std::int64_t col = 0;
  // A row alone takes twice the columns at a time, for the latency's sake.
  if (rows == 1)
    for (; col + 2 * two <= cols; col += 2 * two)
      multiply_block<1, 4>(a, a_stride, b + col, b_stride, c + col, c_stride, inner, add);
  // Blocks of nearly the same size: the last of a few would have too few sums.
  const std::int64_t blocks = (rows + kProductRows - 1) / kProductRows;
  const std::int64_t step = (rows + blocks - 1) / blocks;
  for (; col < cols; col += two)
    for (std::int64_t r = 0; r < rows; r += step)
      multiply_some<kProductRows>(std::min(step, rows - r), a + r * a_stride, a_stride, b + col,
                                  b_stride, c + r * c_stride + col, c_stride, inner, add);
}

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
