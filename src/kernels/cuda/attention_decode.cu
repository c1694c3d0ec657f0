#include <algorithm>

#include "kernels/cuda/chunk_task.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace barge::cuda {
namespace {

template <Encoding kEncoding, int kHeads, int kUnits, bool kWhole>
__global__ void __launch_bounds__(kChunkThreads, kHeads <= 4 ? 3 : 2)
    attend_chunks_kernel(const AttentionCall call, const RowChunk* chunks,
                         const PartialResults partial, int team_lanes) {
  ChunkTask<kEncoding, kHeads, kUnits, kWhole>(
      call, chunks[blockIdx.x / tasks_a_chunk<kHeads>(call)], partial, team_lanes)
      .run(dynamic_shared<std::byte>());
}

template <Encoding kEncoding, int kHeads, int kUnits, bool kWhole = true>
void launch_chunks(cudaStream_t stream, const AttentionCall& call, const RowChunk* chunks,
                   std::size_t count, const PartialResults& partial) {
  const int units = (call.layout.head_dim + kEight - 1) / kEight;
  int lanes = 1;
  while (lanes * kUnits < units) lanes *= 2;
  const std::size_t per_head = sizeof(float2) + sizeof(float) * kEight * kUnits * lanes;
  const std::size_t results = per_head * kHeads * (kChunkThreads / lanes);
  const auto tasks = static_cast<std::size_t>(tasks_a_chunk<kHeads>(call));
  launch({.grid = static_cast<unsigned>(count * tasks),
          .block = kChunkThreads,
          .stream = stream,
          .shared_bytes = std::max(results, sizeof(std::byte*) * kChunkKeys)},
         attend_chunks_kernel<kEncoding, kHeads, kUnits, kWhole>, call, chunks, partial, lanes);
}

using Launcher = void(cudaStream_t, const AttentionCall&, const RowChunk*, std::size_t,
                      const PartialResults&);

// A thread block for each split row and head, a thread for every kChunkThreads-th number.
__global__ void __launch_bounds__(kChunkThreads)
    merge_chunks_kernel(const AttentionCall call, const SplitRow* rows,
                        const PartialResults partial) {
  const SplitRow split = rows[blockIdx.x];
  const int head = blockIdx.y, head_dim = call.layout.head_dim;
  const std::int64_t first =
      std::int64_t{split.first_part - partial.first_part} * call.heads + head;
  float most = -FLT_MAX;
  for (int i = 0; i < split.parts; ++i)
    most = fmaxf(most, partial.states[first + i * call.heads].x);
  for (int dim = threadIdx.x; dim < head_dim; dim += kChunkThreads) {
    float sum = 0, value = 0;
    for (int i = 0; i < split.parts; ++i) {
      const std::int64_t at = first + i * call.heads;
      const float weight = exp2f(partial.states[at].x - most);
      sum += weight * partial.states[at].y;
      value += weight * partial.values[at * head_dim + dim];
    }
    store(call.out, split.row, head * head_dim + dim, value / sum);
  }
}

}  // namespace

void attend_chunks(cudaStream_t stream, const AttentionCall& call, const RowChunk* chunks,
                   std::size_t count, const PartialResults& partial) {
  const RecordLayout& layout = call.layout;
  const auto run = [&](Launcher* launch) { launch(stream, call, chunks, count, partial); };
  // Registers for queries and results bound heads times units.
  const int heads = call.group <= 1 ? 0 : call.group <= 2 ? 1 : call.group <= 4 ? 2 : 3;
  const bool whole = layout.head_dim % kEight == 0;
  if (layout.encoding == Encoding::kF32) {
    if (!whole) return run(launch_chunks<Encoding::kF32, 1, 1, false>);
    constexpr Launcher* kLaunchers[] = {
        launch_chunks<Encoding::kF32, 1, 1>, launch_chunks<Encoding::kF32, 2, 1>,
        launch_chunks<Encoding::kF32, 4, 1>, launch_chunks<Encoding::kF32, 8, 1>};
    return run(kLaunchers[heads]);
  }
  if (layout.encoding == Encoding::kF16) {
    if (!whole) return run(launch_chunks<Encoding::kF16, 1, 1, false>);
    constexpr Launcher* kLaunchers[] = {
        launch_chunks<Encoding::kF16, 1, 2>, launch_chunks<Encoding::kF16, 2, 2>,
        launch_chunks<Encoding::kF16, 4, 1>, launch_chunks<Encoding::kF16, 8, 1>};
    return run(kLaunchers[heads]);
  }
  if (!whole) return run(launch_chunks<Encoding::kQ4, 1, 1, false>);
  constexpr int kUnits[] = {4, 2, 1, 1};
  const int slice = kUnits[heads] * kEight;  // aligned, and of one group
  const bool wide = layout.head_dim % slice == 0 &&
                    (layout.group % slice == 0 || layout.group >= layout.head_dim);
  constexpr Launcher* kLaunchers[][4] = {
      {launch_chunks<Encoding::kQ4, 1, 1>, launch_chunks<Encoding::kQ4, 2, 1>,
       launch_chunks<Encoding::kQ4, 4, 1>, launch_chunks<Encoding::kQ4, 8, 1>},
      {launch_chunks<Encoding::kQ4, 1, 4>, launch_chunks<Encoding::kQ4, 2, 2>,
       launch_chunks<Encoding::kQ4, 4, 1>, launch_chunks<Encoding::kQ4, 8, 1>}};
  run(kLaunchers[wide][heads]);
}

void merge_chunks(cudaStream_t stream, const AttentionCall& call, const SplitRow* rows,
                  std::size_t count, const PartialResults& partial) {
  launch({.grid = dim3(static_cast<unsigned>(count), static_cast<unsigned>(call.heads)),
          .block = kChunkThreads,
          .stream = stream},
         merge_chunks_kernel, call, rows, partial);
}

}  // namespace barge::cuda
