#pragma once

#include <bit>
#include <cstdint>

#include "cuda_runtime.h"

struct __half_raw {
  unsigned short x;
};

struct alignas(2) __half {
  unsigned short bits;

  __half() = default;
  constexpr __half(__half_raw raw) : bits(raw.x) {}
  __half(float x);
  operator float() const;
  constexpr operator __half_raw() const { return {bits}; }
};
using half = __half;

struct alignas(4) __half2 {
  __half x, y;

  __half2() = default;
  constexpr __half2(__half x_, __half y_) : x(x_), y(y_) {}
};
using half2 = __half2;

// Without branches, so that loops of it become vector code.
inline float __half2float(__half h) {
  const std::uint32_t magnitude = (h.bits & 0x7fffu) << 13;
  // The exponent moves from a bias of 15 to 127 by a product, which makes subnormals right too.
  std::uint32_t bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  bits |= magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0u;
  return std::bit_cast<float>(bits | (h.bits & 0x8000u) << 16);
}
inline __half __float2half_rn(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t result;
  if (magnitude > 0x7f800000u) {
    return __half_raw{0x7fff};
  } else if (magnitude >= 0x477ff000u) {  // 65520 rounds to infinity
    result = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // subnormal: the sum's last place is that of the result
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    result = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return __half_raw{static_cast<unsigned short>(result | (bits & 0x80000000u) >> 16)};
}
inline __half::__half(float x) : bits(__float2half_rn(x).bits) {}
inline __half::operator float() const { return __half2float(*this); }

inline __half __float2half(float x) { return __float2half_rn(x); }
inline __half __double2half(double x) { return __float2half_rn(static_cast<float>(x)); }
inline __half __int2half_rn(int x) { return __float2half_rn(static_cast<float>(x)); }
inline int __half2int_rn(__half x) { return __float2int_rn(__half2float(x)); }
inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline short __half_as_short(__half h) { return static_cast<short>(h.bits); }
inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
inline __half __short_as_half(short bits) { return __half_raw{static_cast<unsigned short>(bits)}; }

inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}
inline __half2 __float2half2_rn(float x) { return __floats2half2_rn(x, x); }
inline __half2 __float22half2_rn(float2 x) { return __floats2half2_rn(x.x, x.y); }
inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
inline float __low2float(__half2 h) { return __half2float(h.x); }
inline float __high2float(__half2 h) { return __half2float(h.y); }
inline __half __low2half(__half2 h) { return h.x; }
inline __half __high2half(__half2 h) { return h.y; }

// Arithmetic rounds once: a product of two fits a float, and so does what matters of a sum.
inline __half __hadd(__half a, __half b) { return __float2half_rn(float(a) + float(b)); }
inline __half __hsub(__half a, __half b) { return __float2half_rn(float(a) - float(b)); }
inline __half __hmul(__half a, __half b) { return __float2half_rn(float(a) * float(b)); }
inline __half __hdiv(__half a, __half b) { return __float2half_rn(float(a) / float(b)); }
inline __half __hfma(__half a, __half b, __half c) {
  return __float2half_rn(static_cast<float>(double{a} * double{b} + double{c}));
}
inline __half __hneg(__half a) { return __half_raw{static_cast<unsigned short>(a.bits ^ 0x8000u)}; }
inline __half __habs(__half a) { return __half_raw{static_cast<unsigned short>(a.bits & 0x7fffu)}; }
inline __half __hmax(__half a, __half b) { return __float2half_rn(max(float(a), float(b))); }
inline __half __hmin(__half a, __half b) { return __float2half_rn(min(float(a), float(b))); }
inline bool __hgt(__half a, __half b) { return float(a) > float(b); }
inline bool __hlt(__half a, __half b) { return float(a) < float(b); }
inline bool __heq(__half a, __half b) { return float(a) == float(b); }
inline bool __hisnan(__half a) { return (a.bits & 0x7fffu) > 0x7c00u; }
inline __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline __half2 __hsub2(__half2 a, __half2 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
