// Records of the KV cache (KvFormat of quant/format.h) as kernels see them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "core/errors.h"
#include "quant/format.h"

namespace barge::cuda {

/// Where things are in a record; sizes and offsets in bytes.
struct RecordLayout {
  Encoding encoding;
  int kv_heads, head_dim, group;
  int head_bytes, pair_bytes;    // of one head's codes and of its (scale, min) pairs
  int values, k_pairs, v_pairs;  // V's codes, pairs of K and of V: of the first head
  int used_bytes, record_bytes;
  /// 2^23 as bits, for codes to be or'ed into. As a parameter it stays in a register: an
  /// instruction can mask a code and put it there, but doesn't take two constants.
  unsigned code_base = 0x4b000000u;
};

/// Throws ConfigError for an encoding that the KV cache doesn't have.
inline RecordLayout record_layout(const KvFormat& format) {
  const bool q4 = format.encoding == Encoding::kQ4;
  if (format.encoding != Encoding::kF32 && format.encoding != Encoding::kF16 && !q4)
    throw ConfigError(concat("the KV cache can't be stored as ",
                             to_string(WeightFormat{format.encoding, format.group}),
                             "; --kv-bits takes 32, 16 or 4"));
  const auto bytes = [](std::size_t n) { return static_cast<int>(n); };
  return {.encoding = format.encoding,
          .kv_heads = format.kv_heads,
          .head_dim = format.head_dim,
          .group = format.group,
          .head_bytes = bytes(format.head_bytes()),
          .pair_bytes = q4 ? 4 * format.groups() : 0,
          .values = bytes(format.v_offset(0)),
          .k_pairs = bytes(format.k_scale_offset(0)),
          .v_pairs = bytes(format.v_scale_offset(0)),
          .used_bytes = bytes(format.k_scale_offset(2 * format.kv_heads)),
          .record_bytes = bytes(format.record_bytes())};
}

/// Where one position of a sequence is.
__device__ inline const std::byte* record_at(const std::byte* const* pages, int page_positions,
                                             int record_bytes, int position) {
  const int page = position / page_positions;
  return pages[page] + static_cast<std::int64_t>(position - page * page_positions) * record_bytes;
}

}  // namespace barge::cuda
