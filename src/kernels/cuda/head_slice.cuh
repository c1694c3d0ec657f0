// The numbers of one head of one record that one lane has: kUnits times eight.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/record.cuh"

namespace barge::cuda {

/// A number is raw * scale + low. 4-bit codes stay integers, so that a dot product is scaled once
/// and not for each number.
template <Encoding kEncoding, int kUnits>
struct HeadSlice;

template <int kUnits>
struct HeadSlice<Encoding::kF16, kUnits> {
  uint4 words[kUnits];

  __device__ void raw(int unit, float (&x)[kEight]) const {
    const Eight eight = eight_of<DType::kF16>(words[unit]);
#pragma unroll
    for (int i = 0; i < kEight; ++i) x[i] = eight.x[i];
  }
};

template <int kUnits>
struct HeadSlice<Encoding::kF32, kUnits> {
  Eight eights[kUnits];

  __device__ void raw(int unit, float (&x)[kEight]) const {
#pragma unroll
    for (int i = 0; i < kEight; ++i) x[i] = eights[unit].x[i];
  }
};

template <int kUnits>
struct HeadSlice<Encoding::kQ4, kUnits> {
  unsigned words[kUnits];
  float scale, low;

  /// Code i times raw_factor(i), exactly: put into the mantissa of 2^23 where it lies in the word,
  /// so that most codes need no shift.
  __device__ void raw(int unit, float (&x)[kEight]) const {
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      const unsigned word = i < 5 ? words[unit] : words[unit] >> 20, at = 4 * (i < 5 ? i : i - 5);
      x[i] = __uint_as_float((word & (15u << at)) | 0x4b000000u) - 8388608.0f;
    }
  }
};

/// By what `raw` is too large: a power of two.
template <Encoding kEncoding>
__device__ constexpr float raw_factor(int i) {
  return kEncoding == Encoding::kQ4 ? static_cast<float>(1 << 4 * (i < 5 ? i : i - 5)) : 1.0f;
}

/// Which unit of a head is the i-th of a lane, in a team of `team` lanes: neighbours read
/// neighbouring 16 bytes, which for 4-bit codes are up to four units.
template <Encoding kEncoding, int kUnits>
__device__ inline int unit_of(int lane, int i, int team) {
  return kEncoding == Encoding::kQ4 ? lane * kUnits + i : lane + i * team;
}

/// Eight codes of an unaligned head from dimension `first` on, those past its end 0.
__device__ inline unsigned q4_word(const std::byte* codes, int first, int head_bytes) {
  unsigned word = 0;
  for (int i = 0; i < 4 && first / 2 + i < head_bytes; ++i)
    word |= static_cast<unsigned>(codes[first / 2 + i]) << 8 * i;
  return word;
}

/// Scale and low of the group that dimension `at` is in. Pairs are aligned where codes are whole
/// words.
template <bool kWhole>
__device__ inline float2 q4_pair(const RecordLayout& layout, const std::byte* pairs, int at) {
  const std::byte* pair = pairs + 4 * (at / layout.group);
  if constexpr (kWhole) {
    const unsigned both = *reinterpret_cast<const unsigned*>(pair);
    return make_float2(f32_of_f16(both & 0xffffu), f32_of_f16(both >> 16));
  } else {
    const auto* halves = reinterpret_cast<const unsigned short*>(pair);
    return make_float2(f32_of_f16(halves[0]), f32_of_f16(halves[1]));
  }
}

/// `lane` is the lane's number in its team. kWhole: head_dim is a multiple of 8, and of 8 * kUnits
/// for 4-bit codes, whose groups then don't end inside a slice; else kUnits must be 1. Units past
/// the head's end are zero.
template <Encoding kEncoding, int kUnits, bool kWhole>
__device__ inline HeadSlice<kEncoding, kUnits> load_slice(const RecordLayout& layout,
                                                          const std::byte* codes,
                                                          const std::byte* pairs, int lane,
                                                          int team) {
  static_assert(kWhole || kUnits == 1);
  HeadSlice<kEncoding, kUnits> slice{};
  if constexpr (kEncoding == Encoding::kQ4) {
    const int first = lane * kUnits * kEight;
    if (first >= layout.head_dim) return slice;
    const float2 pair = q4_pair<kWhole>(layout, pairs, first);
    slice.scale = pair.x;
    slice.low = pair.y;
    if constexpr (!kWhole) {
      slice.words[0] = q4_word(codes, first, layout.head_bytes);
    } else if constexpr (kUnits == 4) {
      const uint4 words = reinterpret_cast<const uint4*>(codes)[lane];
      slice.words[0] = words.x;
      slice.words[1] = words.y;
      slice.words[2] = words.z;
      slice.words[3] = words.w;
    } else if constexpr (kUnits == 2) {
      const uint2 words = reinterpret_cast<const uint2*>(codes)[lane];
      slice.words[0] = words.x;
      slice.words[1] = words.y;
    } else {
      slice.words[0] = reinterpret_cast<const unsigned*>(codes)[lane];
    }
  } else {
    constexpr DType kType = kEncoding == Encoding::kF32 ? DType::kF32 : DType::kF16;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int first = unit_of<kEncoding, kUnits>(lane, i, team) * kEight;
      const std::byte* at = codes + first * static_cast<int>(size_of(kType));
      if constexpr (kEncoding == Encoding::kF32) {
        if (first < layout.head_dim)
          slice.eights[i] = load_as<kType>(at, layout.head_dim - first, kWhole);
      } else if constexpr (kWhole) {
        if (first < layout.head_dim) slice.words[i] = *reinterpret_cast<const uint4*>(at);
      } else {
        unsigned short halves[kEight] = {};
        for (int d = 0; d < kEight && first + d < layout.head_dim; ++d)
          halves[d] = reinterpret_cast<const unsigned short*>(at)[d];
        std::memcpy(&slice.words[i], halves, sizeof halves);
      }
    }
  }
  return slice;
}

}  // namespace barge::cuda
