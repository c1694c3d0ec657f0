// What the attention kernels read beside numbers: lists of work, made on the host and copied to the
// device in one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "quant/format.h"

namespace barge::cuda {

/// Keys of one chunk. A row's keys are cut from position 0, so that its sums have the same order in
/// any company; few long rows still fill the device.
constexpr std::int64_t kChunkKeys = 512;
/// Of one row: longer rows have longer chunks, multiples of kChunkKeys.
constexpr std::int64_t kMostChunks = 64;
/// (row, query head) pairs that a thread block of the prefill attention takes.
constexpr int kTileQueries = 64;
/// The widest head that a kernel takes, and that the one on tensor cores takes.
constexpr int kMostHeadDim = 256, kMostTensorHeadDim = 128;

/// A new position: the row of k and v that it comes from and where its record goes.
struct NewRecord {
  std::byte* record;
  std::int64_t row;
};

/// Some keys of one row of q: what a thread block of the decode attention takes.
struct RowChunk {
  std::int64_t row;
  std::int32_t first_page;  // of the row's sequence, in the list of pages
  std::int32_t first_key, end_key;
  std::int32_t part;  // where its result waits for the others of the row; -1: there are no others
};

/// A row whose chunks are merged when all are done.
struct SplitRow {
  std::int64_t row;
  std::int32_t first_chunk, first_part, parts;
};

/// Consecutive queries of a span: query i is row i / g of the span and head i % g of the g that
/// share a KV head.
struct QueryTile {
  std::int64_t first_row;       // of the span
  std::int32_t first_position;  // of the span's first new token
  std::int32_t first_page;
  std::int32_t first_query, queries;
};

/// The spans of one append_kv or attend call, flattened for the device: its bytes are copied there
/// in one piece, and the lists found again from the address that they got (a multiple of 8).
class AttentionWork {
 public:
  /// Copies all that the spans list. `heads`: of queries.
  AttentionWork(std::span<const AttentionSpan> spans, const KvFormat& format, int page_positions,
                int heads);

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Without new rows nothing is launched.
  bool empty() const { return records_.count == 0; }

  const KvFormat& format() const { return format_; }
  int page_positions() const { return page_positions_; }
  int heads() const { return heads_; }
  /// Query heads that share a KV head.
  int group() const { return heads_ / format_.kv_heads; }

  template <typename T>
  struct List {
    std::size_t offset = 0, count = 0;  // of bytes_

    const T* at(const std::byte* work) const { return reinterpret_cast<const T*>(work + offset); }
    std::span<const T> in(std::span<const std::byte> bytes) const {
      return {at(bytes.data()), count};
    }
  };
  const List<std::byte*>& pages() const { return pages_; }
  const List<NewRecord>& records() const { return records_; }
  const List<RowChunk>& chunks() const { return chunks_; }
  const List<SplitRow>& split_rows() const { return split_rows_; }
  const List<QueryTile>& tiles() const { return tiles_; }

 private:
  KvFormat format_;
  int page_positions_ = 0, heads_ = 0;
  std::vector<std::byte> bytes_;
  List<std::byte*> pages_;
  List<NewRecord> records_;
  List<RowChunk> chunks_;
  List<SplitRow> split_rows_;
  List<QueryTile> tiles_;
};

}  // namespace barge::cuda
