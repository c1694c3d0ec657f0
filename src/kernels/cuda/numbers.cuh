// Eight neighbouring numbers of a row in a thread's registers: 16 bytes of a 16-bit type. Where
// addresses allow it they are read and written in accesses of 16 bytes, else one by one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/matrix_view.h"

namespace barge::cuda {

constexpr int kEight = 8;

struct Eight {
  float x[kEight];
};

__device__ inline float f32_of_f16(unsigned bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline unsigned short f16_of_f32(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
__device__ inline float f32_of_bf16(unsigned bits) { return __uint_as_float(bits << 16); }
__device__ inline unsigned short bf16_of_f32(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

/// The bits of two numbers as they lie in memory.
__device__ inline unsigned f16_pair(float first, float second) {
  const __half2 pair = __float22half2_rn(make_float2(first, second));
  unsigned bits;
  std::memcpy(&bits, &pair, sizeof bits);
  return bits;
}
__device__ inline unsigned bf16_pair(float first, float second) {
  const __nv_bfloat162 pair = __float22bfloat162_rn(make_float2(first, second));
  unsigned bits;
  std::memcpy(&bits, &pair, sizeof bits);
  return bits;
}

template <DType kType>
__device__ inline float load_number(const std::byte* at) {
  if constexpr (kType == DType::kF32) return *reinterpret_cast<const float*>(at);
  const unsigned bits = *reinterpret_cast<const unsigned short*>(at);
  return kType == DType::kF16 ? f32_of_f16(bits) : f32_of_bf16(bits);
}
template <DType kType>
__device__ inline void store_number(std::byte* at, float x) {
  if constexpr (kType == DType::kF32)
    *reinterpret_cast<float*>(at) = x;
  else
    *reinterpret_cast<unsigned short*>(at) = kType == DType::kF16 ? f16_of_f32(x) : bf16_of_f32(x);
}

template <DType kType>
__device__ inline Eight eight_of(const uint4& words) {
  const unsigned w[4] = {words.x, words.y, words.z, words.w};
  Eight result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = w[i] & 0xffffu, high = w[i] >> 16;
    result.x[2 * i] = kType == DType::kF16 ? f32_of_f16(low) : f32_of_bf16(low);
    result.x[2 * i + 1] = kType == DType::kF16 ? f32_of_f16(high) : f32_of_bf16(high);
  }
  return result;
}

/// `at` must be a multiple of 16.
template <DType kType>
__device__ inline Eight load_wide(const std::byte* at) {
  if constexpr (kType == DType::kF32) {
    const float4 a = reinterpret_cast<const float4*>(at)[0];
    const float4 b = reinterpret_cast<const float4*>(at)[1];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  } else {
    return eight_of<kType>(*reinterpret_cast<const uint4*>(at));
  }
}
template <DType kType>
__device__ inline void store_wide(std::byte* at, const Eight& v) {
  if constexpr (kType == DType::kF32) {
    reinterpret_cast<float4*>(at)[0] = make_float4(v.x[0], v.x[1], v.x[2], v.x[3]);
    reinterpret_cast<float4*>(at)[1] = make_float4(v.x[4], v.x[5], v.x[6], v.x[7]);
  } else if constexpr (kType == DType::kF16) {
    *reinterpret_cast<uint4*>(at) = make_uint4(f16_pair(v.x[0], v.x[1]), f16_pair(v.x[2], v.x[3]),
                                               f16_pair(v.x[4], v.x[5]), f16_pair(v.x[6], v.x[7]));
  } else {
    *reinterpret_cast<uint4*>(at) =
        make_uint4(bf16_pair(v.x[0], v.x[1]), bf16_pair(v.x[2], v.x[3]), bf16_pair(v.x[4], v.x[5]),
                   bf16_pair(v.x[6], v.x[7]));
  }
}

template <DType kType>
__device__ inline Eight load_as(const std::byte* at, int count, bool wide) {
  if (wide && count >= kEight) return load_wide<kType>(at);
  Eight result{};
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < count) result.x[i] = load_number<kType>(at + i * size_of(kType));
  return result;
}
template <DType kType>
__device__ inline void store_as(std::byte* at, const Eight& v, int count, bool wide) {
  if (wide && count >= kEight) return store_wide<kType>(at, v);
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < count) store_number<kType>(at + i * size_of(kType), v.x[i]);
}

__device__ inline std::byte* number_at(const MatrixView& m, std::int64_t r, std::int64_t c) {
  return m.data + (r * m.stride + c) * static_cast<std::int64_t>(size_of(m.dtype));
}

/// Numbers [c, c + 8) of row r, those past the last column being 0. `wide` as is_wide() says; c
/// must be a multiple of 8.
__device__ inline Eight load_eight(const MatrixView& m, std::int64_t r, std::int64_t c, bool wide) {
  const std::byte* at = number_at(m, r, c);
  const int count = static_cast<int>(m.cols - c < kEight ? m.cols - c : kEight);
  if (m.dtype == DType::kF32) return load_as<DType::kF32>(at, count, wide);
  if (m.dtype == DType::kF16) return load_as<DType::kF16>(at, count, wide);
  return load_as<DType::kBF16>(at, count, wide);
}
/// The same way back: nothing is written past the last column.
__device__ inline void store_eight(const MatrixView& m, std::int64_t r, std::int64_t c,
                                   const Eight& v, bool wide) {
  std::byte* at = number_at(m, r, c);
  const int count = static_cast<int>(m.cols - c < kEight ? m.cols - c : kEight);
  if (m.dtype == DType::kF32) return store_as<DType::kF32>(at, v, count, wide);
  if (m.dtype == DType::kF16) return store_as<DType::kF16>(at, v, count, wide);
  store_as<DType::kBF16>(at, v, count, wide);
}

inline bool is_wide(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }
/// Whether each eighth number of each row lies at a multiple of 16 bytes.
inline bool is_wide(const MatrixView& m) {
  return is_wide(m.data) && static_cast<std::size_t>(m.stride) * size_of(m.dtype) % 16 == 0;
}

}  // namespace barge::cuda
