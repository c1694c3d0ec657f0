// What the launchers of attention kernels share; `attend` (attention.cu) puts it together.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/matrix_view.h"
#include "kernels/cuda/attention_work.h"
#include "kernels/cuda/record.cuh"

namespace barge::cuda {

/// Scores are powers of two, not of e: exp(x) = exp2(x * log2(e)), and exp2 is an instruction.
constexpr double kLog2E = 1.4426950408889634;

/// One attend call, as kernels get it. Pointers are the device's.
struct AttentionCall {
  RecordLayout layout;
  const std::byte* const* pages;
  int page_positions, heads, group;  // group: query heads that share a KV head
  float scale;                       // of the scores, log2(e) included
  MatrixView q, out;
};

/// What the chunks of split rows leave to be merged: for each part and head the largest score, the
/// sum of exp2(score - largest), and the values weighted by the same.
struct PartialResults {
  float2* states;  // [parts, heads]
  float* values;   // [parts, heads, head_dim]
  int first_part;  // that the buffer begins with
};

// attention_decode.cu
/// `count` chunks from `chunks` on; each row that isn't split gets its result.
void attend_chunks(cudaStream_t stream, const AttentionCall& call, const RowChunk* chunks,
                   std::size_t count, const PartialResults& partial);
/// The results of `count` split rows, all of whose parts are there.
void merge_chunks(cudaStream_t stream, const AttentionCall& call, const SplitRow* rows,
                  std::size_t count, const PartialResults& partial);

// attention_prefill.cu
void attend_tiles(cudaStream_t stream, const AttentionCall& call, const QueryTile* tiles,
                  std::size_t count);

}  // namespace barge::cuda
