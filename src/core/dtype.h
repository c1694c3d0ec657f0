#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace barge {

/// Element types of activations and of unquantised weights.
enum class DType : std::uint8_t { kF32, kF16, kBF16 };

constexpr std::size_t size_of(DType t) { return t == DType::kF32 ? 4 : 2; }
constexpr std::string_view name_of(DType t) {
  return t == DType::kF32 ? "float32" : t == DType::kF16 ? "float16" : "bfloat16";
}

/// A bfloat16 number: the upper half of a binary32.
struct BF16 {
  std::uint16_t bits;
};
/// An IEEE binary16 number.
struct F16 {
  std::uint16_t bits;
};

constexpr float to_f32(BF16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr BF16 to_bf16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

constexpr float to_f32(F16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x400u)  // subnormal: an integer number of 2^-24
    return (sign ? -1.0f : 1.0f) * static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

/// Rounds to nearest, ties to even; overflow gives infinity; NaN stays NaN.
constexpr F16 to_f16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  const std::uint32_t magnitude = u & 0x7fffffffu;
  const auto result = [sign](std::uint32_t bits) {
    return F16{static_cast<std::uint16_t>(sign | bits)};
  };
  if (magnitude > 0x7f800000u) return result(0x7e00u);
  if (magnitude >= 0x477ff000u) return result(0x7c00u);  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {                         // below 2^-14: subnormal
    // Adding 0.5 leaves the value's multiple of 2^-24, rounded to even, in the low mantissa bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return result(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u);
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return result((rounded - (112u << 23)) >> 13);
}

}  // namespace barge
