#include "kernels/cuda/attention_work.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"

namespace barge::cuda {
namespace {

// What becomes of the spans, before it is laid out.
struct Lists {
  std::vector<std::byte*> pages;
  std::vector<NewRecord> records;
  std::vector<RowChunk> chunks;
  std::vector<SplitRow> split_rows;
  std::vector<QueryTile> tiles;
  std::int32_t parts = 0;

  void add_records(const AttentionSpan& span, std::size_t record_bytes, int page_positions) {
    for (std::int32_t i = 0; i < span.rows; ++i) {
      const std::int32_t position = span.first_position + i;
      records.push_back({span.pages[static_cast<std::size_t>(position / page_positions)] +
                             static_cast<std::size_t>(position % page_positions) * record_bytes,
                         span.first_row + i});
    }
  }

  void add_row(std::int64_t row, std::int32_t first_page, std::int64_t keys) {
    const std::int64_t step =
        kChunkKeys * ((keys + kChunkKeys * kMostChunks - 1) / (kChunkKeys * kMostChunks));
    const bool split = keys > step;
    const auto first_chunk = static_cast<std::int32_t>(chunks.size());
    const std::int32_t first_part = parts;
    for (std::int64_t key = 0; key < keys; key += step)
      chunks.push_back({row, first_page, static_cast<std::int32_t>(key),
                        static_cast<std::int32_t>(std::min(key + step, keys)),
                        split ? parts++ : -1});
    if (split) split_rows.push_back({row, first_chunk, first_part, parts - first_part});
  }

  void add_tiles(const AttentionSpan& span, std::int32_t first_page, int group) {
    const std::int32_t queries = span.rows * group;
    for (std::int32_t query = 0; query < queries; query += kTileQueries)
      tiles.push_back({span.first_row, span.first_position, first_page, query,
                       std::min(kTileQueries, queries - query)});
  }
};

template <typename T>
AttentionWork::List<T> put(const std::vector<T>& list, std::vector<std::byte>& bytes) {
  const AttentionWork::List<T> put{round_up(bytes.size(), alignof(T)), list.size()};
  bytes.resize(put.offset + list.size() * sizeof(T));
  if (!list.empty()) std::memcpy(bytes.data() + put.offset, list.data(), list.size() * sizeof(T));
  return put;
}

}  // namespace

AttentionWork::AttentionWork(std::span<const AttentionSpan> spans, const KvFormat& format,
                             int page_positions, int heads)
    : format_(format), page_positions_(page_positions), heads_(heads) {
  // Tensor cores would round f32 keys and values, which are kept for being exact.
  const bool tiles = format.encoding != Encoding::kF32 && format.head_dim <= kMostTensorHeadDim;
  const std::size_t record_bytes = format.record_bytes();
  Lists lists;
  for (const AttentionSpan& span : spans) {
    const auto first_page = static_cast<std::int32_t>(lists.pages.size());
    lists.pages.insert(lists.pages.end(), span.pages.begin(), span.pages.end());
    lists.add_records(span, record_bytes, page_positions);
    if (span.prompt && tiles)
      lists.add_tiles(span, first_page, group());
    else
      for (std::int32_t i = 0; i < span.rows; ++i)
        lists.add_row(span.first_row + i, first_page, span.first_position + i + 1);
  }
  pages_ = put(lists.pages, bytes_);
  records_ = put(lists.records, bytes_);
  chunks_ = put(lists.chunks, bytes_);
  split_rows_ = put(lists.split_rows, bytes_);
  tiles_ = put(lists.tiles, bytes_);
}

}  // namespace barge::cuda
