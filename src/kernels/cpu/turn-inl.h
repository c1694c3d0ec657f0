// Rows to columns, in registers; compiled once for each instruction set.
#if defined(BARGE_KERNELS_CPU_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_TURN_INL_H_
#undef BARGE_KERNELS_CPU_TURN_INL_H_
#else
#define BARGE_KERNELS_CPU_TURN_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

// Lane r of v[i] becomes lane i of v[r]. 80 shuffles for 16 lanes, 24 for 8, 8 for 4.
HWY_INLINE void turn(U32Vec (&v)[kLanes]) {
#if HWY_TARGET == HWY_SCALAR
  static_cast<void>(v);
#else
  const U32Tag d;
  const hn::Repartition<std::uint64_t, U32Tag> d64;
  U32Vec four[kLanes / 4][4];  // [rows 4g..4g+3][j]: in block b, column 4b + j of those rows
  for (std::size_t g = 0; g < kLanes / 4; ++g) {
    const U32Vec* rows = v + 4 * g;
    const auto a = hn::BitCast(d64, hn::InterleaveLower(d, rows[0], rows[1]));
    const auto b = hn::BitCast(d64, hn::InterleaveUpper(d, rows[0], rows[1]));
    const auto c = hn::BitCast(d64, hn::InterleaveLower(d, rows[2], rows[3]));
    const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, rows[2], rows[3]));
    four[g][0] = hn::BitCast(d, hn::InterleaveLower(d64, a, c));
    four[g][1] = hn::BitCast(d, hn::InterleaveUpper(d64, a, c));
    four[g][2] = hn::BitCast(d, hn::InterleaveLower(d64, b, e));
    four[g][3] = hn::BitCast(d, hn::InterleaveUpper(d64, b, e));
  }
  for (int j = 0; j < 4; ++j) {
    if constexpr (kLanes == 16) {
      const U32Vec low02 = hn::ConcatLowerLower(d, four[2][j], four[0][j]);
      const U32Vec low13 = hn::ConcatLowerLower(d, four[3][j], four[1][j]);
      const U32Vec high02 = hn::ConcatUpperUpper(d, four[2][j], four[0][j]);
      const U32Vec high13 = hn::ConcatUpperUpper(d, four[3][j], four[1][j]);
      v[j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low13), low02);
      v[4 + j] = hn::OddEvenBlocks(low13, hn::SwapAdjacentBlocks(low02));
      v[8 + j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high13), high02);
      v[12 + j] = hn::OddEvenBlocks(high13, hn::SwapAdjacentBlocks(high02));
    } else if constexpr (kLanes == 8) {
      v[j] = hn::ConcatLowerLower(d, four[1][j], four[0][j]);
      v[4 + j] = hn::ConcatUpperUpper(d, four[1][j], four[0][j]);
    } else {
      v[j] = four[0][j];
    }
  }
#endif
}

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
