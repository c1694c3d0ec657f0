#include <algorithm>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_workspace.h"

namespace barge {

std::vector<AttentionPiece> attention_pieces(const AttentionShape& shape,
                                             std::span<const AttentionSpan> spans, int threads) {
  const KvFormat& format = shape.format;
  const int group = shape.heads / format.kv_heads, most = std::max(1, kQueriesATask / group);
  const auto block_bytes = static_cast<int>(2 * kKeyBlock * format.head_bytes());
  // So many heads that threads have a few pieces each, and end together.
  const auto wanted = static_cast<std::int64_t>(kPiecesAThread) * threads;
  const std::int64_t enough = static_cast<std::int64_t>(spans.size()) * format.kv_heads / wanted;
  std::vector<AttentionPiece> pieces;
  for (std::size_t i = 0; i < spans.size(); ++i)
    for (int first = 0; first < spans[i].rows; first += most) {
      const int rows = std::min(most, spans[i].rows - first);
      const auto heads = static_cast<int>(
          std::clamp(enough, std::int64_t{1},
                     std::int64_t{std::max(
                         1, std::min(kQueriesATask / (rows * group), kBlockBytes / block_bytes))}));
      for (int head = 0; head < format.kv_heads; head += heads)
        pieces.push_back({i, head, std::min(heads, format.kv_heads - head), first, rows});
    }
  return pieces;
}

std::size_t attention_workspace_bytes(int heads, int head_dim) {
  return std::max(AttentionAreas(nullptr, heads, head_dim).bytes,
                  PairAreas(nullptr, heads, head_dim).bytes);
}

}  // namespace barge
