// Products of f32 matrices that are in the first-level cache, compiled once for each instruction
// set.
#if defined(BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_
#undef BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_
#else
#define BARGE_KERNELS_CPU_SMALL_PRODUCT_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

// Rows whose sums are in registers together, two vectors of each: eight sums hide the latency of
// a multiply-add.
inline constexpr int kProductRows = 4;

template <int kRows>
HWY_INLINE void multiply_block(const float* a, std::int64_t a_stride, const float* b,
                               std::int64_t b_stride, float* c, std::int64_t c_stride,
                               std::int64_t inner, bool add) {
  const F32Tag d;
  F32Vec sums[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < 2; ++v)
      sums[r][v] = add ? load(c + r * c_stride + v * static_cast<int>(kLanes)) : hn::Zero(d);
  for (std::int64_t i = 0; i < inner; ++i, b += b_stride) {
    const F32Vec b0 = load(b), b1 = load(b + kLanes);
    for (int r = 0; r < kRows; ++r) {
      const F32Vec factor = hn::Set(d, a[r * a_stride + i]);
      sums[r][0] = hn::MulAdd(factor, b0, sums[r][0]);
      sums[r][1] = hn::MulAdd(factor, b1, sums[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < 2; ++v) store(sums[r][v], c + r * c_stride + v * static_cast<int>(kLanes));
}

// c [rows, cols] (+)= a [rows, inner] * b [inner, cols]; cols is a multiple of 32. Every number of
// c is summed in the order of `inner`, whatever `rows` is.
HWY_INLINE void multiply_rows(const float* a, std::int64_t a_stride, const float* b,
                              std::int64_t b_stride, float* c, std::int64_t c_stride,
                              std::int64_t rows, std::int64_t inner, std::int64_t cols, bool add) {
  for (std::int64_t col = 0; col < cols; col += 2 * static_cast<std::int64_t>(kLanes)) {
    std::int64_t r = 0;
    for (; r + kProductRows <= rows; r += kProductRows)
      multiply_block<kProductRows>(a + r * a_stride, a_stride, b + col, b_stride,
                                   c + r * c_stride + col, c_stride, inner, add);
    for (; r < rows; ++r)
      multiply_block<1>(a + r * a_stride, a_stride, b + col, b_stride, c + r * c_stride + col,
                        c_stride, inner, add);
  }
}

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
