#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace barge {

/// Keys that one step of the online softmax takes.
inline constexpr int kKeyBlock = 64;

/// What the queries of one call share.
struct AttentionShape {
  const KvFormat& format;
  int page_positions;
  int heads;
  float scale;
  const MatrixView& q;
  const MatrixView& out;
};

/// New rows of a span that one task takes for one KV head: as many as keep its queries, results
/// and weights in the second-level cache, so that decoding a key block pays.
int attention_rows_a_task(int heads, int kv_heads);

/// Bytes that attend_rows works in.
std::size_t attention_workspace_bytes(int heads, int head_dim);

/// The queries of new rows [first, first + rows) of `span` that share `kv_head`. Each key and value
/// is decoded once, block by block from position 0; every row's sums run in the order of positions,
/// so that its bits depend neither on the chunk that it came in nor on `first` and `rows`.
/// `workspace` is aligned to 64 bytes. Thread-safe.
void attend_rows(const AttentionShape& shape, const AttentionSpan& span, int kv_head, int first,
                 int rows, std::byte* workspace);

}  // namespace barge
