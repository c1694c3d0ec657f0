#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
  /// Prompts may be attended to in bf16: queries, keys, values and softmax weights are rounded, and
  /// products added up in f32. Done where the processor multiplies bf16.
  bool bf16_prompts = false;
};

/// What one task attends to: new rows [first_row, first_row + rows) of a span, for neighbouring KV
/// heads.
struct AttentionPiece {
  std::size_t span = 0;  // which of the spans
  int first_kv_head = 0, kv_heads = 0;
  int first_row = 0, rows = 0;
};

/// Cuts the spans into tasks. As many rows go together as keep their queries, results and weights
/// in the second-level cache, so that decoding a key block pays; where these are few, so many heads
/// that records are read in long pieces, as far as their key block stays there, too.
std::vector<AttentionPiece> attention_pieces(const AttentionShape& shape,
                                             std::span<const AttentionSpan> spans, int threads);

/// Bytes that attend_piece works in.
std::size_t attention_workspace_bytes(int heads, int head_dim);

/// A piece of `span`. Each key and value is decoded once, block by block from position 0; every
/// row's sums run in the order of positions, so that its bits depend neither on the chunk that it
/// came in nor on how the spans were cut. `workspace` is aligned to 64 bytes. Thread-safe.
void attend_piece(const AttentionShape& shape, const AttentionSpan& span,
                  const AttentionPiece& piece, std::byte* workspace);

}  // namespace barge
