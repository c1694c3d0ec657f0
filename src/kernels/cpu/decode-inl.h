// Decoding of stored numbers that lie side by side, compiled once for each instruction set.
#if defined(BARGE_KERNELS_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_DECODE_INL_H_
#undef BARGE_KERNELS_CPU_DECODE_INL_H_
#else
#define BARGE_KERNELS_CPU_DECODE_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/cpu/dequantise.h"
#include "kernels/cpu/simd-inl.h"
#include "quant/format.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

// codes[i] = the nibble of column first + i; `first` even.
HWY_INLINE void unpack_nibbles(const std::byte* row, std::int64_t first, std::int64_t count,
                               std::uint8_t* codes) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row) + first / 2;
  for (std::int64_t i = 0; i < count / 2; ++i) {
    codes[2 * i] = bytes[i] & 15;
    codes[2 * i + 1] = bytes[i] >> 4;
  }
  if (count % 2 != 0) codes[count - 1] = bytes[count / 2] & 15;
}

HWY_INLINE float f16_at(const std::byte* from) {
  F16 x;
  std::memcpy(&x, from, sizeof x);
  return to_f32(x);
}

// Scale and low of a group, as they stand one behind the other.
struct ScaleAndLow {
  float scale, low;
};
HWY_INLINE ScaleAndLow scale_and_low_at(const std::byte* from) {
#if HWY_TARGET == HWY_SCALAR
  return {f16_at(from), f16_at(from + 2)};
#else
  std::uint32_t bits;
  std::memcpy(&bits, from, sizeof bits);
  const hn::Rebind<hwy::float16_t, F32Tag> d16;
  const hn::Repartition<std::uint32_t, decltype(d16)> d32;
  const F32Vec pairs = hn::PromoteTo(F32Tag(), hn::BitCast(d16, hn::Set(d32, bits)));
  return {hn::GetLane(pairs), hn::ExtractLane(pairs, 1)};
#endif
}

// out[i] = scale * code[i] + low, one scale for all.
template <typename Code>
HWY_INLINE void scale_codes(const Code* codes, std::int64_t count, float scale, float low,
                            float* out) {
  const F32Vec s = hn::Set(F32Tag(), scale), m = hn::Set(F32Tag(), low);
  for_each_vector(static_cast<std::size_t>(count), [=](const auto& get, const auto& put) HWY_ATTR {
    put(hn::MulAdd(get(codes), s, m), out);
  });
}

// Codes of 32 columns, in order, of 16 bytes.
HWY_INLINE void unpack_32_nibbles(const std::byte* bytes, std::uint8_t* codes) {
#if HWY_TARGET == HWY_SCALAR
  unpack_nibbles(bytes, 0, 32, codes);
#else
  const hn::FixedTag<std::uint8_t, 16> d;
  const auto both = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(bytes));
  const auto even = hn::And(both, hn::Set(d, 15)), odd = hn::ShiftRight<4>(both);
  hn::StoreU(hn::InterleaveLower(d, even, odd), d, codes);
  hn::StoreU(hn::InterleaveUpper(d, even, odd), d, codes + 16);
#endif
}

// out[i] = scale * (nibble of column first + i) + low, for i in [0, count). `first` may be odd.
HWY_INLINE void decode_nibbles(const std::byte* row, std::int64_t first, std::int64_t count,
                               float scale, float low, float* out) {
  constexpr std::int64_t kPiece = 32;
  const F32Vec s = hn::Set(F32Tag(), scale), m = hn::Set(F32Tag(), low);
  std::uint8_t codes[kPiece + 1];
  std::int64_t done = 0;
  if (first % 2 == 0)
    for (; done + kPiece <= count; done += kPiece) {
      unpack_32_nibbles(row + (first + done) / 2, codes);
      for (std::int64_t i = 0; i < kPiece; i += static_cast<std::int64_t>(kLanes))
        store(hn::MulAdd(load(codes + i), s, m), out + done + i);
    }
  for (; done < count; done += kPiece) {
    const std::int64_t n = std::min(kPiece, count - done), at = first + done;
    unpack_nibbles(row, at - at % 2, n + at % 2, codes);
    scale_codes(codes + at % 2, n, scale, low, out + done);
  }
}

// The format that all of rows[0, count) have, or null.
HWY_INLINE const WeightFormat* shared_format(const ChannelMap::Place* rows, std::size_t count) {
  for (std::size_t i = 1; i < count; ++i)
    if (!(rows[i].panel->layout.format == rows[0].panel->layout.format)) return nullptr;
  return &rows[0].panel->layout.format;
}

// One f16 a lane, of rows[0, kLanes): that of `group` in the table at `offset` of the row's panel.
HWY_INLINE F32Vec gather_f16(const ChannelMap::Place* rows, std::size_t PanelLayout::*offset,
                             std::int64_t group) {
  F16 values[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const auto& [panel, row] = rows[lane];
    std::memcpy(&values[lane],
                panel->data + panel->layout.*offset + 2 * (row * panel->layout.groups + group), 2);
  }
  return load(values);
}

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
