#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention.h"

namespace barge {

/// (new row, query head) pairs of a task, unless one row and KV head alone have more.
inline constexpr int kQueriesATask = 128;
/// Keys and values, as they are stored, that the heads of a task take from a key block.
inline constexpr int kBlockBytes = 128 << 10;
inline constexpr int kPiecesAThread = 4;

/// Heads as the small products take them: a multiple of two of the widest vectors.
constexpr std::int64_t padded_head_dim(int head_dim) { return (head_dim + 31) / 32 * 32; }

/// Where attend_piece keeps what; all f32, each at a multiple of 64 bytes.
struct AttentionAreas {
  float *q, *results;  // [queries, padded]
  float* weights;      // [queries, kKeyBlock]: scores, then their exponentials
  float *most, *sum;   // [queries]: largest score, sum of the exponentials
  float* keys;         // [head_dim, kKeyBlock]: turned
  float* key_rows;     // [4, padded]: keys before they are turned
  float* values;       // [kKeyBlock, padded]
  std::size_t bytes;

  AttentionAreas(std::byte* workspace, int heads, int head_dim) {
    const std::int64_t queries = std::max(heads, kQueriesATask), padded = padded_head_dim(head_dim);
    std::size_t at = 0;
    const auto take = [&](std::int64_t count) {
      auto* area = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(workspace) + at);
      at += (sizeof(float) * static_cast<std::size_t>(count) + 63) / 64 * 64;
      return area;
    };
    q = take(queries * padded);
    results = take(queries * padded);
    weights = take(queries * kKeyBlock);
    most = take(queries);
    sum = take(queries);
    keys = take(padded * kKeyBlock);
    key_rows = take(4 * padded);
    values = take(kKeyBlock * padded);
    bytes = at;
  }
};

}  // namespace barge
