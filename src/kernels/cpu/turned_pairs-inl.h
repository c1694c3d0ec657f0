// Weights as pairs of bf16 for processors with vectors of 16 lanes, compiled once for each
// instruction set. Each channel's row is read along its inputs, 32 numbers (16 pairs) a vector;
// 16 such vectors are then turned, so that the lanes are channels.
#if defined(BARGE_KERNELS_CPU_TURNED_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_TURNED_PAIRS_INL_H_
#undef BARGE_KERNELS_CPU_TURNED_PAIRS_INL_H_
#else
#define BARGE_KERNELS_CPU_TURNED_PAIRS_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/cpu/decode-inl.h"
#include "kernels/cpu/dequantise.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

inline constexpr int kTurned = 16;  // channels, and pairs a vector
inline constexpr std::int64_t kTurnedInputs = 32;

// Writes 32 inputs of 16 channels; row(r) gives 16 pairs of channel r. `to` is where the first pair
// goes, `step` numbers before the next.
template <typename Row>
HWY_INLINE void put_turned(const Row& row, std::uint16_t* to, std::int64_t step) {
  U32Vec v[kTurned];
  for (int r = 0; r < kTurned; ++r) v[r] = row(r);
  turn(v);
  for (int i = 0; i < kTurned; ++i, to += step)
    hn::StoreU(v[i], U32Tag(), reinterpret_cast<std::uint32_t*>(to));
}

// The f16 with these bits, in every lane.
HWY_INLINE F32Vec all_lanes(std::uint16_t f16) {
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  const hn::Rebind<hwy::float16_t, F32Tag> d16f;
  return hn::PromoteTo(F32Tag(), hn::BitCast(d16f, hn::Set(d16, f16)));
}

// 4 bits, groups along the inputs of a multiple of 32: the 16 values that a group can have are
// computed once, and looked up. Returns how many inputs were whole vectors.
inline std::int64_t put_q4_pairs(const ChannelMap::Place* rows, std::int64_t inputs,
                                 std::int64_t group, std::uint16_t* to, std::int64_t step) {
  const U32Tag d;
  const F32Tag df;
  const hn::Rebind<std::uint8_t, U32Tag> d8;
  const F32Vec codes = hn::Iota(df, 0);
  const U32Vec nibble = hn::Set(d, 15), upper = hn::Set(d, 0xffff0000u);
  HWY_ALIGN std::uint32_t even[kTurned][kTurned], odd[kTurned][kTurned];  // values of codes
  const std::uint8_t* bytes[kTurned];
  const std::uint16_t *scales[kTurned], *lows[kTurned];
  for (int r = 0; r < kTurned; ++r) {
    const auto& [panel, row] = rows[r];
    const PanelLayout& layout = panel->layout;
    const auto table = [&](std::size_t offset) {
      return reinterpret_cast<const std::uint16_t*>(panel->data + offset) + row * layout.groups;
    };
    bytes[r] = reinterpret_cast<const std::uint8_t*>(panel->data) +
               static_cast<std::size_t>(row) * layout.row_bytes;
    scales[r] = table(layout.scales_offset);
    lows[r] = table(layout.mins_offset);
  }
  const std::int64_t whole = inputs / kTurnedInputs * kTurnedInputs;
  for (std::int64_t k = 0; k < whole;) {
    for (int r = 0; r < kTurned; ++r) {
      const U32Vec values = bf16_in_upper_half(
          hn::MulAdd(codes, all_lanes(scales[r][k / group]), all_lanes(lows[r][k / group])));
      hn::Store(hn::ShiftRight<16>(values), d, even[r]);
      hn::Store(hn::And(values, upper), d, odd[r]);
    }
    const std::int64_t end = std::min(whole, (k / group + 1) * group);
    for (; k < end; k += kTurnedInputs)
      put_turned(
          [&](int r) HWY_ATTR {
            const U32Vec byte = hn::PromoteTo(d, hn::LoadU(d8, bytes[r] + k / 2));
            const auto low = hn::IndicesFromVec(d, hn::And(byte, nibble));
            const auto high = hn::IndicesFromVec(d, hn::ShiftRight<4>(byte));
            return hn::Or(hn::TableLookupLanes(hn::Load(d, even[r]), low),
                          hn::TableLookupLanes(hn::Load(d, odd[r]), high));
          },
          to + k / 2 * step, step);
  }
  return whole;
}

// Rows that are bf16 already.
inline std::int64_t put_bf16_pairs(const ChannelMap::Place* rows, std::int64_t inputs,
                                   std::uint16_t* to, std::int64_t step) {
  const std::int64_t whole = inputs / kTurnedInputs * kTurnedInputs;
  for (std::int64_t k = 0; k < whole; k += kTurnedInputs)
    put_turned(
        [&](int r) HWY_ATTR {
          const auto& [panel, row] = rows[r];
          return hn::LoadU(
              U32Tag(),
              reinterpret_cast<const std::uint32_t*>(
                  panel->data + static_cast<std::size_t>(row) * panel->layout.row_bytes + 2 * k));
        },
        to + k / 2 * step, step);
  return whole;
}

// Any other format: decoded and rounded a stretch at a time.
inline std::int64_t put_decoded_pairs(const ChannelMap::Place* rows, std::int64_t inputs,
                                      std::uint16_t* to, std::int64_t step) {
  constexpr std::int64_t kStretch = 4 * kTurnedInputs;
  HWY_ALIGN BF16 rounded[kTurned][kStretch];
  const std::int64_t whole = inputs / kTurnedInputs * kTurnedInputs;
  for (std::int64_t first = 0; first < whole; first += kStretch) {
    const std::int64_t count = std::min(kStretch, whole - first);
    for (int r = 0; r < kTurned; ++r) {
      float decoded[kStretch];
      decode_row(*rows[r].panel, rows[r].row, first, count, Epilogue::kStore, decoded);
      for (std::int64_t i = 0; i < count; i += kTurned) store(load(decoded + i), rounded[r] + i);
    }
    for (std::int64_t k = 0; k < count; k += kTurnedInputs)
      put_turned(
          [&](int r) HWY_ATTR {
            return hn::LoadU(U32Tag(), reinterpret_cast<const std::uint32_t*>(rounded[r] + k));
          },
          to + (first + k) / 2 * step, step);
  }
  return whole;
}

// All inputs of rows[0, kLanes) but the last few; returns how many those were.
inline std::int64_t put_pairs(const ChannelMap::Place* rows, std::int64_t inputs, std::uint16_t* to,
                              std::int64_t step) {
  const WeightFormat* format = shared_format(rows, kTurned);
  if (format != nullptr && format->encoding == Encoding::kBF16)
    return put_bf16_pairs(rows, inputs, to, step);
  if (format != nullptr && format->encoding == Encoding::kQ4 && format->axis == GroupAxis::kInput &&
      format->group % kTurnedInputs == 0)
    return put_q4_pairs(rows, inputs, format->group, to, step);
  if (format != nullptr && format->encoding == Encoding::kQ8 && format->axis == GroupAxis::kInput)
    return 0;  // faster by words
  return put_decoded_pairs(rows, inputs, to, step);
}

#else
inline std::int64_t put_pairs(const ChannelMap::Place*, std::int64_t, std::uint16_t*,
                              std::int64_t) {
  return 0;
}
#endif

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
