#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace barge {

/// Output channels that are dequantised and multiplied together.
inline constexpr std::int64_t kTileChannels = 64;

/// Where the product wants the weights of one tile, [inputs, kTileChannels]: channels in blocks,
/// inside a block `pack` inputs of each channel side by side. The weight of (input k, channel n)
/// is number
///   (n / block) * block_stride + (k / pack) * block * pack + (n % block) * pack + k % pack.
struct TileLayout {
  DType dtype = DType::kF32;  // kF32 or kBF16
  int pack = 1;               // 1, or 2 where a processor multiplies pairs of bf16
  std::int64_t block = kTileChannels;
  std::int64_t block_stride = 0;
  std::int64_t inputs = 0;         // that count
  std::int64_t padded_inputs = 0;  // with zeros after them; a multiple of `pack`
  std::size_t bytes = 0;
};

}  // namespace barge
