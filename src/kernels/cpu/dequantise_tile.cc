// Stored weights to the product's layout. 4 and 8 bits with groups along the inputs go by words of
// 32 bits: one word of each of a vector's channels side by side, so that codes, scales and results
// stand in lanes of channels, as the product wants them. turned_pairs-inl.h has a faster way for
// pairs of bf16.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/dequantise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dequantise_tile.cc"
#include "hwy/foreach_target.h"  // must come before highway.h

#include "hwy/highway.h"
#include "kernels/cpu/decode-inl.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/turn-inl.h"
#include "kernels/cpu/turned_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kVectorChannels = static_cast<std::int64_t>(kLanes);
constexpr std::int64_t kChunk = 128;  // inputs gathered at a time; even
constexpr std::int64_t kTurnedAtOnce = std::max<std::int64_t>(kVectorChannels, 2);

// The rows of a vector's channels. Those past the matrix's end repeat the first one: their results
// are overwritten with zeros.
struct Rows {
  ChannelMap::Place at[kVectorChannels];
  std::int64_t valid = 0;
};

// Where a vector's channels begin in the tile; numbers between packs of inputs.
struct F32Sink {
  float* base;
  std::int64_t step;
  bool round;

  // Inputs k and k + 1; k even.
  HWY_INLINE void put(std::int64_t k, F32Vec first, F32Vec second) const {
    store(round ? rounded_to_bf16(first) : first, base + k * step);
    store(round ? rounded_to_bf16(second) : second, base + (k + 1) * step);
  }
};

struct Bf16PairSink {
  std::uint16_t* base;
  std::int64_t step;

  HWY_INLINE void put(std::int64_t k, F32Vec first, F32Vec second) const {
    const U32Tag du;
    const U32Vec low = hn::ShiftRight<16>(bf16_in_upper_half(first));
    const U32Vec high = hn::And(bf16_in_upper_half(second), hn::Set(du, 0xffff0000u));
    hn::StoreU(hn::Or(low, high), du, reinterpret_cast<std::uint32_t*>(base + k / 2 * step));
  }
};

struct Bf16Sink {
  BF16* base;
  std::int64_t step;

  HWY_INLINE void put(std::int64_t k, F32Vec first, F32Vec second) const {
    store(first, base + k * step);
    store(second, base + (k + 1) * step);
  }
};

// Inputs [i, i + kTurnedAtOnce) of rows that are decoded from `first`, as far as there are `count`.
template <typename Sink>
HWY_INLINE void put_columns(const float (&decoded)[kVectorChannels][kChunk], std::int64_t first,
                            std::int64_t i, std::int64_t count, const Sink& sink) {
  constexpr std::int64_t kTurns = kTurnedAtOnce / kVectorChannels;
  F32Vec numbers[kTurnedAtOnce];
  for (std::int64_t t = 0; t < kTurns; ++t) {
    U32Vec v[kLanes];
    for (std::size_t r = 0; r < kLanes; ++r)
      v[r] = hn::BitCast(U32Tag(), load(decoded[r] + i + t * kVectorChannels));
    turn(v);
    for (std::size_t r = 0; r < kLanes; ++r)
      numbers[static_cast<std::size_t>(t) * kLanes + r] = hn::BitCast(F32Tag(), v[r]);
  }
  for (std::int64_t j = 0; j < kTurnedAtOnce && i + j < count; j += 2)
    sink.put(first + i + j, numbers[j], numbers[j + 1]);
}

// Any format: rows decoded by themselves, then turned. Inputs [first, inputs), first even.
template <typename Sink>
void turn_rows(const Rows& rows, std::int64_t first, std::int64_t inputs, const Sink& sink) {
  HWY_ALIGN float decoded[kVectorChannels][kChunk];
  for (; first < inputs; first += kChunk) {
    const std::int64_t count = std::min(kChunk, inputs - first);
    for (std::int64_t lane = 0; lane < kVectorChannels; ++lane) {
      decode_row(*rows.at[lane].panel, rows.at[lane].row, first, count, Epilogue::kStore,
                 decoded[lane]);
      std::fill(decoded[lane] + count, decoded[lane] + kChunk, 0.0f);
    }
    for (std::int64_t i = 0; i < count; i += kTurnedAtOnce)
      put_columns(decoded, first, i, count, sink);
  }
}

// words[i, lane] = word `first` + i of a lane's row; row_bytes may be odd.
HWY_INLINE void gather_words(const Rows& rows, std::int64_t first, std::int64_t count,
                             std::uint32_t* words) {
  for (std::int64_t lane = 0; lane < kVectorChannels; ++lane) {
    const auto& [panel, row] = rows.at[lane];
    const std::byte* from =
        panel->data + static_cast<std::size_t>(row) * panel->layout.row_bytes + 4 * first;
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(words + i * kVectorChannels + lane, from + 4 * i, 4);
  }
}

// Whole words of 8 inputs; returns how many inputs that were.
template <typename Sink>
std::int64_t put_q4(const Rows& rows, std::int64_t inputs, std::int64_t group, const Sink& sink) {
  const U32Tag du;
  const F32Tag df;
  const U32Vec mask = hn::Set(du, 15);
  const auto number = [=](U32Vec word) HWY_ATTR {
    return hn::ConvertTo(df, hn::BitCast(I32Tag(), hn::And(word, mask)));
  };
  HWY_ALIGN std::uint32_t words[kChunk / 8 * kVectorChannels];
  const std::int64_t whole = inputs / 8 * 8;
  for (std::int64_t k = 0; k < whole;) {
    const F32Vec scale = gather_f16(rows.at, &PanelLayout::scales_offset, k / group);
    const F32Vec low = gather_f16(rows.at, &PanelLayout::mins_offset, k / group);
    for (const std::int64_t group_end = std::min(whole, (k / group + 1) * group); k < group_end;) {
      const std::int64_t count = std::min(kChunk, group_end - k) / 8;
      gather_words(rows, k / 8, count, words);
      for (std::int64_t i = 0; i < count; ++i, k += 8) {
        const U32Vec w = hn::Load(du, words + i * kVectorChannels);
        sink.put(k, hn::MulAdd(number(w), scale, low),
                 hn::MulAdd(number(hn::ShiftRight<4>(w)), scale, low));
        sink.put(k + 2, hn::MulAdd(number(hn::ShiftRight<8>(w)), scale, low),
                 hn::MulAdd(number(hn::ShiftRight<12>(w)), scale, low));
        sink.put(k + 4, hn::MulAdd(number(hn::ShiftRight<16>(w)), scale, low),
                 hn::MulAdd(number(hn::ShiftRight<20>(w)), scale, low));
        sink.put(k + 6, hn::MulAdd(number(hn::ShiftRight<24>(w)), scale, low),
                 hn::MulAdd(number(hn::ShiftRight<28>(w)), scale, low));
      }
    }
  }
  return whole;
}

// Whole words of 4 inputs.
template <typename Sink>
std::int64_t put_q8(const Rows& rows, std::int64_t inputs, std::int64_t group, const Sink& sink) {
  const U32Tag du;
  const F32Tag df;
  HWY_ALIGN std::uint32_t words[kChunk / 4 * kVectorChannels];
  const std::int64_t whole = inputs / 4 * 4;
  for (std::int64_t k = 0; k < whole;) {
    const F32Vec scale = gather_f16(rows.at, &PanelLayout::scales_offset, k / group);
    // A code that was shifted to the top of its lane comes down with its sign.
    const auto number = [=](U32Vec top) HWY_ATTR {
      return hn::Mul(hn::ConvertTo(df, hn::ShiftRight<24>(hn::BitCast(I32Tag(), top))), scale);
    };
    for (const std::int64_t group_end = std::min(whole, (k / group + 1) * group); k < group_end;) {
      const std::int64_t count = std::min(kChunk, group_end - k) / 4;
      gather_words(rows, k / 4, count, words);
      for (std::int64_t i = 0; i < count; ++i, k += 4) {
        const U32Vec w = hn::Load(du, words + i * kVectorChannels);
        sink.put(k, number(hn::ShiftLeft<24>(w)), number(hn::ShiftLeft<16>(w)));
        sink.put(k + 2, number(hn::ShiftLeft<8>(w)), number(w));
      }
    }
  }
  return whole;
}

// Whole vectors of pairs of inputs, which a word of 32 bits holds.
template <typename Sink>
std::int64_t put_bf16(const Rows& rows, std::int64_t inputs, const Sink& sink) {
  const U32Tag du;
  const U32Vec upper = hn::Set(du, 0xffff0000u);
  const std::byte* row[kLanes];
  for (std::size_t r = 0; r < kLanes; ++r)
    row[r] = rows.at[r].panel->data +
             static_cast<std::size_t>(rows.at[r].row) * rows.at[r].panel->layout.row_bytes;
  const std::int64_t whole = inputs / (2 * kVectorChannels) * (2 * kVectorChannels);
  for (std::int64_t k = 0; k < whole; k += 2 * kVectorChannels) {
    U32Vec v[kLanes];
    for (std::size_t r = 0; r < kLanes; ++r)
      v[r] = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(row[r] + 2 * k));
    turn(v);
    for (std::size_t r = 0; r < kLanes; ++r)
      sink.put(k + 2 * static_cast<std::int64_t>(r), hn::BitCast(F32Tag(), hn::ShiftLeft<16>(v[r])),
               hn::BitCast(F32Tag(), hn::And(v[r], upper)));
  }
  return whole;
}

template <typename Sink>
void put_channels(const Rows& rows, std::int64_t inputs, const Sink& sink) {
  const WeightFormat* format = shared_format(rows.at, kVectorChannels);
  const bool by_words =
      format != nullptr && format->axis == GroupAxis::kInput && format->group % 8 == 0;
  std::int64_t done = 0;
  if (by_words && format->encoding == Encoding::kQ4)
    done = put_q4(rows, inputs, format->group, sink);
  else if (by_words && format->encoding == Encoding::kQ8)
    done = put_q8(rows, inputs, format->group, sink);
  else if (format != nullptr && format->encoding == Encoding::kBF16)
    done = put_bf16(rows, inputs, sink);
  turn_rows(rows, done, inputs, sink);
}

void put_channels(const Rows& rows, std::int64_t inputs, const Bf16PairSink& sink) {
  const std::int64_t done = put_pairs(rows.at, inputs, sink.base, sink.step);
  if (done == 0) return put_channels<Bf16PairSink>(rows, inputs, sink);
  turn_rows(rows, done, inputs, sink);
}

// Zeros for inputs [first, padded) of a vector's channels, and for all of channels >= valid.
void clear_padding(const TileLayout& layout, std::int64_t valid, std::byte* base) {
  const std::size_t size = size_of(layout.dtype);
  const auto pack = static_cast<std::size_t>(layout.pack);
  const std::int64_t first = (layout.inputs + layout.inputs % 2) / layout.pack;
  for (std::int64_t i = 0; i < layout.padded_inputs / layout.pack; ++i) {
    const auto from = i < first ? static_cast<std::size_t>(valid) : 0;
    std::memset(base + size * pack * (static_cast<std::size_t>(i * layout.block) + from), 0,
                size * pack * (static_cast<std::size_t>(kVectorChannels) - from));
  }
}

void DequantiseTile(const ChannelMap& channels, std::int64_t first, const TileLayout& layout,
                    bool round, std::byte* tile) {
  const std::int64_t step = layout.block * layout.pack;
  for (std::int64_t n = 0; n < kTileChannels; n += kVectorChannels) {
    std::byte* base = tile + size_of(layout.dtype) *
                                 static_cast<std::size_t>(n / layout.block * layout.block_stride +
                                                          n % layout.block * layout.pack);
    Rows rows;
    for (std::int64_t lane = 0; lane < kVectorChannels; ++lane)
      if (first + n + lane < channels.channels()) {
        rows.at[lane] = channels.find(first + n + lane);
        rows.valid = lane + 1;
      } else {
        rows.at[lane] = rows.at[0];
      }
    if (rows.valid > 0) {
      if (layout.dtype == DType::kF32)
        put_channels(rows, layout.inputs, F32Sink{reinterpret_cast<float*>(base), step, round});
      else if (layout.pack == 2)
        put_channels(rows, layout.inputs,
                     Bf16PairSink{reinterpret_cast<std::uint16_t*>(base), step});
      else
        put_channels(rows, layout.inputs, Bf16Sink{reinterpret_cast<BF16*>(base), step});
    }
    if (rows.valid < kVectorChannels || layout.padded_inputs > layout.inputs)
      clear_padding(layout, rows.valid, base);
  }
}

}  // namespace
}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace barge {

HWY_EXPORT(DequantiseTile);

ChannelMap::ChannelMap(std::span<const WeightPanel> panels)
    : panels_(panels.begin(), panels.end()) {
  std::int64_t end = 0;
  for (const WeightPanel& panel : panels_) ends_.push_back(end += panel.layout.rows);
}

ChannelMap::Place ChannelMap::find(std::int64_t channel) const {
  const auto at = std::upper_bound(ends_.begin(), ends_.end(), channel) - ends_.begin();
  const WeightPanel& panel = panels_[static_cast<std::size_t>(at)];
  return {&panel, channel - (ends_[static_cast<std::size_t>(at)] - panel.layout.rows)};
}

void dequantise_tile(const ChannelMap& channels, std::int64_t first, const TileLayout& layout,
                     bool round, std::byte* tile) {
  HWY_DYNAMIC_DISPATCH(DequantiseTile)(channels, first, layout, round, tile);
}

}  // namespace barge
#endif
