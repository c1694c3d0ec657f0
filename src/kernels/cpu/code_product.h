#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/matrix_view.h"
#include "kernels/cpu/dequantise.h"
#include "quant/format.h"

namespace barge {

/// Channels of a code tile that lie side by side.
inline constexpr std::int64_t kCodeBlock = 32;

/// A product of 8-bit inputs and weights of 4 or 8 bits, grouped along the inputs.
struct CodeShape {
  Encoding encoding = Encoding::kQ4;  // or kQ8
  std::int64_t group = 64;            // a multiple of 32
  std::int64_t inputs = 0;            // a multiple of `group`

  std::int64_t groups() const { return inputs / group; }
  /// Of kTileChannels channels:
  ///   codes        [blocks of kCodeBlock, inputs / 4, kCodeBlock, 4] u8: 4-bit codes, or code +
  ///   128 scales, lows [blocks, groups, kCodeBlock] f32; lows of kQ4 only
  std::size_t tile_bytes() const;

  bool operator==(const CodeShape&) const = default;
};

/// Rows rounded to 8 bits: x = scale * code. Of each 8 inputs the even ones stand first where
/// weights have 4 bits: so they come out of bytes that hold two.
struct RowCodes {
  std::int8_t* codes = nullptr;  // [rows, stride]
  std::int64_t stride = 0;
  float* scales = nullptr;  // [rows, groups] max |x| / 127 of a group
  /// [rows, groups] of the codes of a group: their sum times the scale for 4-bit weights, -128
  /// times their sum as int32 for 8-bit ones.
  float* sums = nullptr;
  std::int64_t groups = 0;

  RowCodes row(std::int64_t r) const {
    return {codes + r * stride, stride, scales + r * groups, sums + r * groups, groups};
  }
};

/// Thread-safe. All implementations give the same bits: codes are multiplied and added up in
/// integers over a group, groups in order in f32, each by one fused multiplication and addition
/// with weight scale * input scale, and one of low * `sums`.
class CodeProduct {
 public:
  virtual ~CodeProduct() = default;

  /// Rounds row `row` of x [.., shape.inputs] as rounded_inputs.h says. A group with a number that
  /// isn't finite gets a scale that isn't either.
  virtual void quantise_row(const CodeShape& shape, const MatrixView& x, std::int64_t row,
                            const RowCodes& to) const = 0;
  /// Channels [first, first + kTileChannels), all of the shape's format; those past the last hold
  /// anything. `tile` has shape.tile_bytes(), aligned to 64.
  virtual void unpack_tile(const CodeShape& shape, const ChannelMap& channels, std::int64_t first,
                           std::byte* tile) const = 0;
  /// sums [rows, kTileChannels] = x tile.
  virtual void multiply(const CodeShape& shape, const RowCodes& x, std::int64_t rows,
                        const std::byte* tile, float* sums) const = 0;
};

/// The fastest that this processor has.
std::unique_ptr<CodeProduct> make_code_product();
/// AVX-512 VNNI, where multiplies_codes_fast().
std::unique_ptr<CodeProduct> make_vnni_code_product();
std::unique_ptr<CodeProduct> make_plain_code_product();
bool multiplies_codes_fast();

}  // namespace barge
