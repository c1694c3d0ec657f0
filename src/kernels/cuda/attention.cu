#include <algorithm>

#include "core/errors.h"
#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/operations.h"

namespace barge::cuda {
namespace {

// Parts of split rows that wait to be merged at once: enough thread blocks for any GPU. More chunks
// than that are taken in waves.
constexpr std::int64_t kMostParts = 512;
static_assert(kMostParts >= kMostChunks);

std::size_t part_bytes(int heads, int head_dim) {
  return static_cast<std::size_t>(heads) *
         (sizeof(float2) + sizeof(float) * static_cast<std::size_t>(head_dim));
}

void require_supported(const AttentionWork& work) {
  const KvFormat& format = work.format();
  if (format.head_dim > kMostHeadDim || work.heads() % format.kv_heads != 0)
    throw ConfigError(concat("attention on CUDA takes heads of up to ", kMostHeadDim,
                             " numbers and whole groups of them, got ", work.heads(), " heads of ",
                             format.head_dim, " over ", format.kv_heads, " of keys and values"));
  if (format.encoding == Encoding::kQ4 && format.groups() > 1 && format.group % 8 != 0)
    throw ConfigError(concat("attention on CUDA takes 4-bit KV in groups of a multiple of 8, got ",
                             format.group));
}

// Rows one by one: a wave is as many chunks as the workspace holds parts of split rows.
void attend_rows(cudaStream_t stream, const AttentionCall& call, const AttentionWork& work,
                 const std::byte* work_there, std::span<std::byte> workspace) {
  const auto splits = work.split_rows().in(work.bytes());
  const auto capacity =
      static_cast<std::int64_t>(workspace.size() / part_bytes(call.heads, call.layout.head_dim));
  PartialResults partial{.states = reinterpret_cast<float2*>(workspace.data())};
  partial.values = reinterpret_cast<float*>(partial.states + capacity * call.heads);
  std::size_t chunk = 0, split = 0;
  while (chunk < work.chunks().count) {
    partial.first_part = split < splits.size() ? splits[split].first_part : 0;
    std::size_t end = split;
    while (end < splits.size() &&
           splits[end].first_part + splits[end].parts - partial.first_part <= capacity)
      ++end;
    const std::size_t end_chunk = end < splits.size()
                                      ? static_cast<std::size_t>(splits[end].first_chunk)
                                      : work.chunks().count;
    if (end_chunk == chunk)
      throw ConfigError(concat("attention over ", splits[split].parts, " chunks of keys wants ",
                               part_bytes(call.heads, call.layout.head_dim) *
                                   static_cast<std::size_t>(splits[split].parts),
                               " bytes of workspace, got ", workspace.size()));
    attend_chunks(stream, call, work.chunks().at(work_there) + chunk, end_chunk - chunk, partial);
    if (end > split)
      merge_chunks(stream, call, work.split_rows().at(work_there) + split, end - split, partial);
    chunk = end_chunk;
    split = end;
  }
}

}  // namespace

std::size_t attention_workspace_bytes(int heads, int head_dim, std::int64_t max_rows) {
  return part_bytes(heads, head_dim) *
         static_cast<std::size_t>(std::min(kMostParts, kMostChunks * max_rows));
}

void attend(cudaStream_t stream, const AttentionWork& work, const std::byte* work_there,
            float scale, MatrixView q, MatrixView out, std::span<std::byte> workspace) {
  if (work.empty()) return;
  require_supported(work);
  const AttentionCall call{.layout = record_layout(work.format()),
                           .pages = work.pages().at(work_there),
                           .page_positions = work.page_positions(),
                           .heads = work.heads(),
                           .group = work.group(),
                           .scale = static_cast<float>(scale * kLog2E),
                           .q = q,
                           .out = out};
  attend_rows(stream, call, work, work_there, workspace);
  if (work.tiles().count != 0)
    attend_tiles(stream, call, work.tiles().at(work_there), work.tiles().count);
}

}  // namespace barge::cuda
