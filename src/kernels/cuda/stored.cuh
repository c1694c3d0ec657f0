// Eight neighbouring numbers of a panel, from their stored form into f32.
#pragma once

#include "kernels/cuda/numbers.cuh"
#include "quant/format.h"

namespace barge::cuda {

// The number 0..255 in byte `i` of a word: it becomes the low byte of 2^23, which is then taken
// off. Two operations, where a conversion from an integer runs at a quarter of their rate.
__device__ inline float byte_number(unsigned word, int i) {
  constexpr unsigned kTwoTo23 = 0x4b000000u;
  return __uint_as_float(__byte_perm(word, kTwoTo23, 0x7440u | static_cast<unsigned>(i))) - 0x1p23f;
}

// Eight neighbouring numbers as they are stored.
template <Encoding kEncoding>
struct Stored {
  Eight numbers;  // not grouped: the numbers themselves
};
template <>
struct Stored<Encoding::kQ4> {
  unsigned codes;
};
template <>
struct Stored<Encoding::kQ8> {
  uint2 codes;
};

template <Encoding kEncoding>
constexpr int kEightBytes = sizeof(Stored<kEncoding>);
template <>
constexpr int kEightBytes<Encoding::kF16> = 16;
template <>
constexpr int kEightBytes<Encoding::kBF16> = 16;

constexpr DType dtype_of(Encoding encoding) {
  return encoding == Encoding::kF16    ? DType::kF16
         : encoding == Encoding::kBF16 ? DType::kBF16
                                       : DType::kF32;
}

template <Encoding kEncoding>
__device__ Stored<kEncoding> load_stored(const std::byte* at) {
  if constexpr (kEncoding == Encoding::kQ4)
    return {*reinterpret_cast<const unsigned*>(at)};
  else if constexpr (kEncoding == Encoding::kQ8)
    return {*reinterpret_cast<const uint2*>(at)};
  else
    return {load_wide<dtype_of(kEncoding)>(at)};
}

// Scales and mins of eight columns: one of each along the input axis, else eight.
template <GroupAxis kAxis>
struct Scales {
  uint4 scale, min;  // f16
};
template <>
struct Scales<GroupAxis::kInput> {
  unsigned short scale, min;
};

// `at`: of the first scale.
template <Encoding kEncoding, GroupAxis kAxis>
__device__ Scales<kAxis> load_scales(const PanelLayout& layout, const std::byte* at) {
  using Bits = decltype(Scales<kAxis>::scale);
  Scales<kAxis> result{};
  result.scale = *reinterpret_cast<const Bits*>(at);
  if constexpr (kEncoding == Encoding::kQ4)
    result.min = *reinterpret_cast<const Bits*>(at + (layout.mins_offset - layout.scales_offset));
  return result;
}

__device__ inline Eight spread(unsigned short f16) {
  const float x = f32_of_f16(f16);
  return {{x, x, x, x, x, x, x, x}};
}
__device__ inline Eight spread(const uint4& f16) { return eight_of<DType::kF16>(f16); }

// scale * code has at most 19 bits, so that it is exact, and a sum with it rounds but once.
template <Encoding kEncoding, typename Scales>
__device__ Eight decoded(const Stored<kEncoding>& stored, const Scales& scales) {
  const Eight scale = spread(scales.scale), min = spread(scales.min);
  Eight result;
  if constexpr (kEncoding == Encoding::kQ4) {
    const unsigned even = stored.codes & 0x0f0f0f0fu, odd = (stored.codes >> 4) & 0x0f0f0f0fu;
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      result.x[i] = scale.x[i] * byte_number(i % 2 == 0 ? even : odd, i / 2) + min.x[i];
  } else {
    // An inverted sign bit makes a code code + 128.
    const unsigned first = stored.codes.x ^ 0x80808080u, last = stored.codes.y ^ 0x80808080u;
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      result.x[i] = scale.x[i] * (byte_number(i < 4 ? first : last, i % 4) - 128.0f);
  }
  return result;
}

constexpr bool is_grouped(Encoding encoding) {
  return encoding == Encoding::kQ4 || encoding == Encoding::kQ8;
}

}  // namespace barge::cuda
