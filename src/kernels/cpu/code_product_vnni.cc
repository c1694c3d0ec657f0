// 8-bit products by vpdpbusd, which multiplies 64 pairs of codes and adds them up by fours. Highway
// 1.0 hasn't got it, so these are intrinsics: compiled for processors that have them, whatever the
// rest is compiled for, and called only there.
#include <immintrin.h>

#include "kernels/cpu/code_product.h"
#include "kernels/cpu/row_visit.h"
#include "kernels/rounded_inputs.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC's own header (its bug 105593)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")

// Nothing of std is instantiated between these pragmas: the linker might give it to everyone.
namespace barge {
namespace {

constexpr std::int64_t kLanes = 16;
// Inputs whose weights, for one block of channels, stay in the first-level cache beside some rows.
constexpr std::int64_t kInputsAtOnce = 512;
constexpr int kStep =
    32;  // inputs that are unrolled: else GCC 12 copies each accumulator each time
constexpr int kMostRows = 6;  // 24 accumulators, integer and f32; 5 registers are left for codes

inline __m512 load(const float* from) { return _mm512_loadu_ps(from); }
inline __m512 load(const F16* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline __m512 load(const BF16* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

template <typename T>
void quantise(const CodeShape& shape, const T* x, const RowCodes& to) {
  const bool pairs = shape.encoding == Encoding::kQ4;
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m128i evens_first = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  std::int8_t* codes = to.codes;
  for (std::int64_t g = 0; g < shape.groups(); ++g, x += shape.group, codes += shape.group) {
    // As integers, so that what isn't a number is larger than every number.
    __m512i most = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < shape.group; i += kLanes)
      most = _mm512_max_epi32(most, _mm512_and_si512(_mm512_castps_si512(load(x + i)), magnitude));
    const float largest =
        _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(most))));
    const bool nothing = largest < kLeastInput;
    const __m512 inverse = _mm512_set1_ps(nothing ? 0 : kLargestCode / largest);
    __m512i sum = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < shape.group; i += kLanes) {
      const __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(load(x + i), inverse));
      sum = _mm512_add_epi32(sum, code);
      __m128i bytes = _mm512_cvtsepi32_epi8(code);
      if (pairs) bytes = _mm_shuffle_epi8(bytes, evens_first);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), bytes);
    }
    const int all = _mm512_reduce_add_epi32(sum);
    to.scales[g] = nothing ? 0 : largest / kLargestCode;
    if (pairs)
      to.sums[g] = to.scales[g] * static_cast<float>(all);
    else
      reinterpret_cast<std::int32_t*>(to.sums)[g] = -128 * all;
  }
}

// Rows to columns, of 16 by 16 words: 64 shuffles.
inline void turn(__m512i (&v)[16]) {
  __m512i four[4][4];  // [rows 4g..4g+3][j]: in block b, column 4b + j of those rows
  for (int g = 0; g < 4; ++g) {
    const __m512i* rows = v + 4 * g;
    const __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const __m512i b = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const __m512i c = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const __m512i d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    four[g][0] = _mm512_unpacklo_epi64(a, c);
    four[g][1] = _mm512_unpackhi_epi64(a, c);
    four[g][2] = _mm512_unpacklo_epi64(b, d);
    four[g][3] = _mm512_unpackhi_epi64(b, d);
  }
  for (int j = 0; j < 4; ++j) {
    const __m512i even01 = _mm512_shuffle_i32x4(four[0][j], four[1][j], 0x88);
    const __m512i odd01 = _mm512_shuffle_i32x4(four[0][j], four[1][j], 0xdd);
    const __m512i even23 = _mm512_shuffle_i32x4(four[2][j], four[3][j], 0x88);
    const __m512i odd23 = _mm512_shuffle_i32x4(four[2][j], four[3][j], 0xdd);
    v[j] = _mm512_shuffle_i32x4(even01, even23, 0x88);
    v[4 + j] = _mm512_shuffle_i32x4(odd01, odd23, 0x88);
    v[8 + j] = _mm512_shuffle_i32x4(even01, even23, 0xdd);
    v[12 + j] = _mm512_shuffle_i32x4(odd01, odd23, 0xdd);
  }
}

// Of each of a vector's channels.
struct Rows {
  const std::byte* at[kLanes];
  std::int64_t bytes;
};

// Words [first, first + 16) of each row, turned; zeros for those past its end. What the next
// channels have there is asked for: with so many rows the processor sees no pattern by itself.
inline void turned_words(const Rows& rows, std::int64_t first, __m512i (&v)[16]) {
  const std::int64_t left = rows.bytes - 4 * first;
  const __mmask64 there = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
  for (int r = 0; r < kLanes; ++r) {
    const std::byte* from = rows.at[r] + 4 * first;
    v[r] = _mm512_maskz_loadu_epi8(there, from);
    _mm_prefetch(from + kLanes * rows.bytes, _MM_HINT_T0);
  }
  turn(v);
}

void unpack_q4(const Rows& rows, std::uint8_t* to) {
  const __m512i nibbles = _mm512_set1_epi8(15);
  const std::int64_t words = rows.bytes / 4;
  for (std::int64_t first = 0; first < words; first += 16) {
    __m512i v[16];
    turned_words(rows, first, v);
    const std::int64_t count = words - first < 16 ? words - first : 16;
    for (std::int64_t i = 0; i < count; ++i, to += 8 * kCodeBlock) {
      _mm512_store_si512(to, _mm512_and_si512(v[i], nibbles));
      _mm512_store_si512(to + 4 * kCodeBlock,
                         _mm512_and_si512(_mm512_srli_epi16(v[i], 4), nibbles));
    }
  }
}

void unpack_q8(const Rows& rows, std::uint8_t* to) {
  const __m512i sign = _mm512_set1_epi8(-128);
  const std::int64_t words = rows.bytes / 4;
  for (std::int64_t first = 0; first < words; first += 16) {
    __m512i v[16];
    turned_words(rows, first, v);
    const std::int64_t count = words - first < 16 ? words - first : 16;
    for (std::int64_t i = 0; i < count; ++i, to += 4 * kCodeBlock)
      _mm512_store_si512(to, _mm512_xor_si512(v[i], sign));
  }
}

// A table of f16, one a group and row, as f32 with channels side by side.
void unpack_table(const Rows& rows, float* to) {
  const std::int64_t groups = rows.bytes / 2;
  for (std::int64_t g = 0; g < groups;) {
    __m512i v[16];
    turned_words(rows, g / 2, v);
    for (int i = 0; i < 16 && g < groups; ++i)
      for (int shift = 0; shift <= 16 && g < groups; shift += 16, ++g, to += kCodeBlock)
        _mm512_store_ps(to, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(
                                _mm512_srl_epi32(v[i], _mm_cvtsi32_si128(shift)))));
  }
}

struct Block {
  const std::uint8_t* codes;
  const float *scales, *lows;
};

// sums [kRows, kTileChannels] (+)= groups [first, end) of kRows rows by a block of channels.
template <int kRows, bool kLows>
void multiply_rows(const CodeShape& shape, const RowCodes& x, const Block& block,
                   std::int64_t first, std::int64_t end, float* sums) {
  __m512 all[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < 2; ++v)
      all[r][v] =
          first == 0 ? _mm512_setzero_ps() : _mm512_load_ps(sums + r * kTileChannels + v * kLanes);
  const std::int8_t* codes = x.codes + first * shape.group;
  const std::uint8_t* weights = block.codes + first * shape.group * kCodeBlock;
  for (std::int64_t g = first; g < end; ++g) {
    __m512i sum[kRows][2];
    for (int r = 0; r < kRows; ++r)
      sum[r][0] = sum[r][1] = kLows ? _mm512_setzero_si512()
                                    : _mm512_castps_si512(_mm512_set1_ps(x.sums[r * x.groups + g]));
    for (std::int64_t k = 0; k < shape.group; k += kStep) {
      for (int i = 0; i < kStep; i += 4, codes += 4, weights += 4 * kCodeBlock) {
        const __m512i w0 = _mm512_load_si512(weights), w1 = _mm512_load_si512(weights + 64);
        for (int r = 0; r < kRows; ++r) {
          const __m512i four =
              _mm512_set1_epi32(*reinterpret_cast<const std::int32_t*>(codes + r * x.stride));
          sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], w0, four);
          sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], w1, four);
        }
      }
    }
    for (int v = 0; v < 2; ++v) {
      const __m512 scale = _mm512_load_ps(block.scales + g * kCodeBlock + v * kLanes);
      for (int r = 0; r < kRows; ++r)
        all[r][v] = _mm512_fmadd_ps(
            _mm512_cvtepi32_ps(sum[r][v]),
            _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[r * x.groups + g])), all[r][v]);
      if constexpr (kLows) {
        const __m512 low = _mm512_load_ps(block.lows + g * kCodeBlock + v * kLanes);
        for (int r = 0; r < kRows; ++r)
          all[r][v] = _mm512_fmadd_ps(low, _mm512_set1_ps(x.sums[r * x.groups + g]), all[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < 2; ++v) _mm512_store_ps(sums + r * kTileChannels + v * kLanes, all[r][v]);
}

using Multiply = void (*)(const CodeShape&, const RowCodes&, const Block&, std::int64_t,
                          std::int64_t, float*);
template <bool kLows>
constexpr Multiply kMultiply[kMostRows] = {multiply_rows<1, kLows>, multiply_rows<2, kLows>,
                                           multiply_rows<3, kLows>, multiply_rows<4, kLows>,
                                           multiply_rows<5, kLows>, multiply_rows<6, kLows>};

void multiply_tile(const CodeShape& shape, const RowCodes& x, std::int64_t rows,
                   const std::byte* tile, float* sums) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(tile);
  const auto* scales = reinterpret_cast<const float*>(codes + shape.inputs * kTileChannels);
  const float* lows = scales + shape.groups() * kTileChannels;
  const bool q4 = shape.encoding == Encoding::kQ4;
  const std::int64_t step = kInputsAtOnce / shape.group > 0 ? kInputsAtOnce / shape.group : 1;
  for (std::int64_t channel = 0; channel < kTileChannels; channel += kCodeBlock) {
    const Block block{codes + channel * shape.inputs, scales + channel * shape.groups(),
                      lows + channel * shape.groups()};
    for (std::int64_t first = 0; first < shape.groups(); first += step) {
      const std::int64_t end = first + step < shape.groups() ? first + step : shape.groups();
      for (std::int64_t row = 0; row < rows; row += kMostRows) {
        const std::int64_t count = rows - row < kMostRows ? rows - row : kMostRows;
        (q4 ? kMultiply<true> : kMultiply<false>)[count - 1](shape, x.row(row), block, first, end,
                                                             sums + row * kTileChannels + channel);
      }
    }
  }
}

}  // namespace
}  // namespace barge
#pragma GCC pop_options

namespace barge {
namespace {

class VnniCodeProduct final : public CodeProduct {
 public:
  void quantise_row(const CodeShape& shape, const MatrixView& x, std::int64_t row,
                    const RowCodes& to) const override {
    visit_row(x, row, [&](const auto* numbers) { quantise(shape, numbers, to); });
  }

  void unpack_tile(const CodeShape& shape, const ChannelMap& channels, std::int64_t first,
                   std::byte* tile) const override {
    auto* const codes = reinterpret_cast<std::uint8_t*>(tile);
    auto* const scales = reinterpret_cast<float*>(codes + shape.inputs * kTileChannels);
    float* const lows = scales + shape.groups() * kTileChannels;
    for (std::int64_t at = 0; at < kTileChannels; at += kLanes) {
      if (first + at >= channels.channels()) return;
      const std::int64_t table_bytes = 2 * shape.groups();
      const std::int64_t row_bytes =
          shape.encoding == Encoding::kQ4 ? shape.inputs / 2 : shape.inputs;
      Rows rows{.bytes = row_bytes}, row_scales{.bytes = table_bytes},
          row_lows{.bytes = table_bytes};
      for (std::int64_t i = 0; i < kLanes; ++i) {
        // Channels past the last repeat it: nobody asks for what they give.
        const std::int64_t channel = std::min(first + at + i, channels.channels() - 1);
        const auto [panel, row] = channels.find(channel);
        const PanelLayout& layout = panel->layout;
        const auto table = static_cast<std::size_t>(2 * row * layout.groups);
        rows.at[i] = panel->data + static_cast<std::size_t>(row) * layout.row_bytes;
        row_scales.at[i] = panel->data + layout.scales_offset + table;
        row_lows.at[i] = panel->data + layout.mins_offset + table;
      }
      const std::int64_t block = at / kCodeBlock * kCodeBlock, lane = at % kCodeBlock;
      std::uint8_t* const to = codes + block * shape.inputs + 4 * lane;
      unpack_table(row_scales, scales + block * shape.groups() + lane);
      if (shape.encoding == Encoding::kQ4) {
        unpack_q4(rows, to);
        unpack_table(row_lows, lows + block * shape.groups() + lane);
      } else {
        unpack_q8(rows, to);
      }
    }
  }

  void multiply(const CodeShape& shape, const RowCodes& x, std::int64_t rows, const std::byte* tile,
                float* sums) const override {
    multiply_tile(shape, x, rows, tile, sums);
  }
};

}  // namespace

std::unique_ptr<CodeProduct> make_vnni_code_product() {
  return std::make_unique<VnniCodeProduct>();
}

}  // namespace barge
