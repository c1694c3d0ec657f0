// Products of small matrices of bf16 pairs that are in the first-level cache, for processors that
// multiply those (AVX-512 BF16); compiled once for each instruction set.
#if defined(BARGE_KERNELS_CPU_PAIR_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_PAIR_PRODUCT_INL_H_
#undef BARGE_KERNELS_CPU_PAIR_PRODUCT_INL_H_
#else
#define BARGE_KERNELS_CPU_PAIR_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

// Not one of Highway's sets, so whoever calls what is in here asks first.
inline bool has_bf16_pairs() { return __builtin_cpu_supports("avx512bf16") != 0; }

#pragma GCC push_options
#pragma GCC target("avx512bf16")

// Numbers in order: lane i has 2 i in its lower half and 2 i + 1 in its upper one.
inline U32Vec pairs_of(F32Vec first_half, F32Vec second_half) {
  return U32Vec{(__m512i)_mm512_cvtne2ps_pbh(second_half.raw, first_half.raw)};
}

// count is a multiple of 32.
inline void to_pairs(const float* from, std::int64_t count, std::uint32_t* to) {
  for (std::int64_t i = 0; i < count; i += 32)
    hn::StoreU(pairs_of(load(from + i), load(from + i + 16)), U32Tag(), to + i / 2);
}

// to[i] = (even[i], odd[i]); count is a multiple of 16.
inline void interleave_pairs(const float* even, const float* odd, std::int64_t count,
                             std::uint32_t* to) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (std::int64_t i = 0; i < count; i += 16)
    _mm512_storeu_si512(
        to + i, _mm512_permutexvar_epi16(order, pairs_of(load(even + i), load(odd + i)).raw));
}

enum class Joins : bool { kNothing, kScaled };  // c = a b, or c[r] = c[r] * factors[r] + (a b)[r]

// A function of its own, so that its loop has the processor's registers to itself: with 6 x 4 sums
// there are 10 loads to 24 products.
template <int kRows, int kVectors, Joins kJoins>
HWY_NOINLINE void multiply_pair_block(const std::uint32_t* a, std::int64_t a_stride,
                                      const std::uint32_t* b, std::int64_t b_stride, float* c,
                                      std::int64_t c_stride, std::int64_t pairs,
                                      [[maybe_unused]] const float* factors) {
  __m512 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < pairs; ++i, b += b_stride) {
    __m512bh columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = (__m512bh)_mm512_loadu_si512(b + 16 * v);
    for (int r = 0; r < kRows; ++r) {
      const auto pair = (__m512bh)_mm512_set1_epi32(static_cast<std::int32_t>(a[r * a_stride + i]));
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], pair, columns[v]);
    }
  }
#pragma GCC unroll 8  // else the sums go to memory first
  for (int r = 0; r < kRows; ++r, c += c_stride)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kJoins == Joins::kScaled)
        sums[r][v] =
            _mm512_fmadd_ps(_mm512_loadu_ps(c + 16 * v), _mm512_set1_ps(factors[r]), sums[r][v]);
      _mm512_storeu_ps(c + 16 * v, sums[r][v]);
    }
}

inline constexpr int kPairRows = 6;

// multiply_pair_block with that many rows, at most kRows.
template <int kRows, int kVectors, Joins kJoins, typename... Arguments>
inline void multiply_some_pairs(std::int64_t rows, const Arguments&... arguments) {
  if constexpr (kRows > 0) {
    if (rows == kRows)
      multiply_pair_block<kRows, kVectors, kJoins>(arguments...);
    else
      multiply_some_pairs<kRows - 1, kVectors, kJoins>(rows, arguments...);
  }
}

// a [rows, pairs], b [pairs, cols], pairs as to_pairs and interleave_pairs make them, c [rows,
// cols] f32. cols is a multiple of 32. Each sum runs in the order of pairs from zero, whatever
// `rows` is.
template <Joins kJoins>
inline void multiply_pairs(const std::uint32_t* a, std::int64_t a_stride, const std::uint32_t* b,
                           std::int64_t b_stride, float* c, std::int64_t c_stride,
                           std::int64_t rows, std::int64_t pairs, std::int64_t cols,
                           const float* factors = nullptr) {
  for (std::int64_t r = 0; r < rows;
       r += kPairRows, a += kPairRows * a_stride, c += kPairRows * c_stride) {
    const std::int64_t some = std::min<std::int64_t>(kPairRows, rows - r);
    std::int64_t col = 0;
    for (; col + 64 <= cols; col += 64)
      multiply_some_pairs<kPairRows, 4, kJoins>(some, a, a_stride, b + col, b_stride, c + col,
                                                c_stride, pairs, factors + r);
    if (col < cols)
      multiply_some_pairs<kPairRows, 2, kJoins>(some, a, a_stride, b + col, b_stride, c + col,
                                                c_stride, pairs, factors + r);
  }
}

#pragma GCC pop_options

#endif

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
