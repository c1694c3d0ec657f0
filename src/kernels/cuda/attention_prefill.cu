#include <mma.h>

#include <cfloat>
#include <cmath>

#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tile_loader.cuh"

namespace barge::cuda {
namespace {

namespace wmma = nvcuda::wmma;

constexpr int kMatrix = 16;  // rows and columns of the matrices that tensor cores take
constexpr int kWarps = kTileQueries / kMatrix, kThreads = kWarps * kWarp;

using Accumulator = wmma::fragment<wmma::accumulator, kMatrix, kMatrix, kMatrix, float>;
using Left = wmma::fragment<wmma::matrix_a, kMatrix, kMatrix, kMatrix, __half, wmma::row_major>;
using Keys = wmma::fragment<wmma::matrix_b, kMatrix, kMatrix, kMatrix, __half, wmma::col_major>;
using Values = wmma::fragment<wmma::matrix_b, kMatrix, kMatrix, kMatrix, __half, wmma::row_major>;

// Rows are padded so that neighbouring ones begin in other banks of shared memory.
constexpr int kScoreStride = kTileKeys + 4, kWeightStride = kTileKeys + 8;

// What a thread block shares beside the tile: each warp's own.
struct Shared {
  alignas(32) float scores[kWarps][kMatrix * kScoreStride];
  alignas(32) __half weights[kWarps][kMatrix * kWeightStride];
  float factors[kWarps][kMatrix];  // by which a row's results are to be multiplied
};

// Some queries of one KV head of one span, a warp for every 16 of them, block by block of keys from
// position 0. Tensor cores take f16: q * scale * log2(e) is rounded to it, and so are the weights
// (each 2^-11 of itself at most; of 4-bit KV also the decoded numbers), sums are f32.
//   Bits of a query: its scores, its weights and its results come from its own row of the matrices;
// a key that it doesn't see has weight 0 and adds 0 to finite sums, whatever the key; a block that
// it sees nothing of leaves the largest score as it is, so that nothing is rescaled. (On tensor
// cores products of zero don't shift the others' alignment: see the test of tiny values before huge
// ones.)
template <Encoding kEncoding, int kDims>
class TileTask {
 public:
  __device__ TileTask(const AttentionCall& call, const QueryTile& tile, int kv_head, Shared& shared,
                      SharedTile<kDims>& shared_tile)
      : call_(call),
        tile_(tile),
        head_dim_(call.layout.head_dim),
        kv_head_(kv_head),
        shared_(shared),
        shared_tile_(shared_tile),
        warp_(threadIdx.x / kWarp),
        lane_(threadIdx.x % kWarp),
        last_key_(position_of(tile.queries - 1)),
        loader_(call, tile, kv_head, last_key_, shared_tile) {
    const int first = warp_ * kMatrix;
    // Queries past the tile's end are the last one again, and aren't stored.
    query_ = min(first + lane_ / 2, tile.queries - 1);
    position_ = position_of(query_);
    warp_sees_ = first < tile.queries ? position_of(min(first + kMatrix, tile.queries) - 1) : -1;
  }

  __device__ void run() {
    load_queries();
    find_rows();
#pragma unroll
    for (int f = 0; f < kFragments; ++f) wmma::fill_fragment(results_[f], 0.0f);
    loader_.find_records(0, 0);
    __syncthreads();
    loader_.fetch_keys(0);
    int slot = 0;
    for (int key = 0; key <= last_key_; key += kTileKeys, slot ^= 1) {
      loader_.put_keys();
      __syncthreads();  // keys are there
      loader_.fetch_values(slot);
      loader_.find_records(slot ^ 1, key + kTileKeys);
      if (key <= warp_sees_) multiply_keys();
      __syncthreads();  // keys have been read, the next records are known
      loader_.put_values();
      __syncthreads();  // values are there
      if (key + kTileKeys <= last_key_) loader_.fetch_keys(slot ^ 1);
      if (key <= warp_sees_) {
        scores_to_weights(key);
        add_values();
      }
      __syncthreads();  // values have been read
    }
    store_results();
  }

 private:
  static constexpr int kFragments = kDims / kMatrix, kTileStride = SharedTile<kDims>::kStride;

  __device__ int position_of(int query) const {
    return tile_.first_position + (tile_.first_query + query) / call_.group;
  }
  __device__ int head_of(int query) const {
    return kv_head_ * call_.group + (tile_.first_query + query) % call_.group;
  }
  __device__ std::int64_t row_of(int query) const {
    return tile_.first_row + (tile_.first_query + query) / call_.group;
  }
  __device__ bool is_used(int fragment) const { return fragment * kMatrix < head_dim_; }

  __device__ void load_queries() {
    auto* piece = reinterpret_cast<__half*>(shared_.scores[warp_]);  // [16, 16]
    const auto* q = reinterpret_cast<const float*>(
        number_at(call_.q, row_of(query_), std::int64_t{head_of(query_)} * head_dim_));
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      if (!is_used(f)) continue;
      for (int i = lane_ % 2 * kEight; i < (lane_ % 2 + 1) * kEight; ++i) {
        const int dim = f * kMatrix + i;
        piece[lane_ / 2 * kMatrix + i] =
            __float2half_rn(dim < head_dim_ ? q[dim] * call_.scale : 0.0f);
      }
      __syncwarp();
      wmma::load_matrix_sync(queries_[f], piece, kMatrix);
      __syncwarp();
    }
  }

  // Which number of an accumulator is of which row is the compiler's secret: ask it.
  __device__ void find_rows() {
    float* rows = shared_.scores[warp_];
    for (int i = lane_; i < kMatrix * kMatrix; i += kWarp)
      rows[i] = static_cast<float>(i / kMatrix);
    __syncwarp();
    Accumulator numbers;
    wmma::load_matrix_sync(numbers, rows, kMatrix, wmma::mem_row_major);
#pragma unroll
    for (int i = 0; i < numbers.num_elements; ++i) rows_[i] = static_cast<int>(numbers.x[i]);
  }

  __device__ void multiply_keys() {
    Accumulator scores[kTileKeys / kMatrix];
#pragma unroll
    for (auto& part : scores) wmma::fill_fragment(part, 0.0f);
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      if (!is_used(f)) continue;
#pragma unroll
      for (int n = 0; n < kTileKeys / kMatrix; ++n) {
        Keys keys;
        wmma::load_matrix_sync(keys, &shared_tile_.numbers[n * kMatrix * kTileStride + f * kMatrix],
                               kTileStride);
        wmma::mma_sync(scores[n], queries_[f], keys, scores[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < kTileKeys / kMatrix; ++n)
      wmma::store_matrix_sync(&shared_.scores[warp_][n * kMatrix], scores[n], kScoreStride,
                              wmma::mem_row_major);
  }

  // Two lanes share a row. The barriers around the values' arrival order this after the scores.
  __device__ void scores_to_weights(int key) {
    constexpr int kHalf = kTileKeys / 2;
    const int row = lane_ / 2, first = lane_ % 2 * kHalf;
    const float* from = &shared_.scores[warp_][row * kScoreStride + first];
    float scores[kHalf], most = most_;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      scores[i] = from[i];
      if (shared_tile_.not_finite[first + i] != 0) scores[i] = NAN;
      if (key + first + i > position_) scores[i] = -INFINITY;
      most = fmaxf(most, scores[i]);
    }
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    const float factor = exp2f(most_ - most);
    rescale_ = __any_sync(kAllLanes, factor != 1.0f);
    most_ = most;
    sum_ *= factor;
    __half* to = &shared_.weights[warp_][row * kWeightStride + first];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const __half weight = __float2half_rn(exp2f(scores[i] - most));
      sum_ += __half2float(weight);  // as it is multiplied, so that weights add up to 1
      to[i] = weight;
    }
    if (lane_ % 2 == 0) shared_.factors[warp_][row] = factor;
    __syncwarp();
  }

  __device__ void add_values() {
    Left weights[kTileKeys / kMatrix];
#pragma unroll
    for (int k = 0; k < kTileKeys / kMatrix; ++k)
      wmma::load_matrix_sync(weights[k], &shared_.weights[warp_][k * kMatrix], kWeightStride);
    if (rescale_) multiply_results();
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      if (!is_used(f)) continue;
#pragma unroll
      for (int k = 0; k < kTileKeys / kMatrix; ++k) {
        Values values;
        wmma::load_matrix_sync(
            values, &shared_tile_.numbers[k * kMatrix * kTileStride + f * kMatrix], kTileStride);
        wmma::mma_sync(results_[f], weights[k], values, results_[f]);
      }
    }
  }

  __device__ void multiply_results() {
#pragma unroll
    for (int i = 0; i < Accumulator::num_elements; ++i) {
      const float factor = shared_.factors[warp_][rows_[i]];
#pragma unroll
      for (int f = 0; f < kFragments; ++f) results_[f].x[i] *= factor;
    }
  }

  __device__ void store_results() {
    const float sum = sum_ + __shfl_xor_sync(kAllLanes, sum_, 1);
    if (lane_ % 2 == 0) shared_.factors[warp_][lane_ / 2] = 1 / sum;
    __syncwarp();
    multiply_results();
    float* piece = shared_.scores[warp_];
    MatrixView out = call_.out;
    out.data = number_at(out, 0, std::int64_t{head_of(query_)} * head_dim_);
    out.cols = head_dim_;
    const bool wide = reinterpret_cast<std::uintptr_t>(out.data) % 16 == 0 &&
                      out.stride * static_cast<std::int64_t>(size_of(out.dtype)) % 16 == 0;
    const bool stored = warp_ * kMatrix + lane_ / 2 < tile_.queries;
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      if (!is_used(f)) continue;
      wmma::store_matrix_sync(piece, results_[f], kScoreStride, wmma::mem_row_major);
      __syncwarp();
      const int first = lane_ % 2 * kEight, col = f * kMatrix + first;
      Eight eight;
#pragma unroll
      for (int i = 0; i < kEight; ++i)  // + 0: whether a zero has a sign depends on the company
        eight.x[i] = piece[lane_ / 2 * kScoreStride + first + i] + 0.0f;
      if (stored && col < head_dim_) store_eight(out, row_of(query_), col, eight, wide);
      __syncwarp();
    }
  }

  const AttentionCall& call_;
  const QueryTile tile_;
  const int head_dim_, kv_head_;
  Shared& shared_;
  const SharedTile<kDims>& shared_tile_;
  const int warp_, lane_, last_key_;
  int query_, position_, warp_sees_;  // of the row that this lane has half of; last key of the warp
  bool rescale_ = false;
  float most_ = -FLT_MAX, sum_ = 0;  // of the row; of its half
  int rows_[Accumulator::num_elements];
  Left queries_[kFragments];
  Accumulator results_[kFragments];
  TileLoader<kEncoding, kDims, kThreads> loader_;
};

template <Encoding kEncoding, int kDims>
__global__ void __launch_bounds__(kThreads, 2)
    attend_tiles_kernel(const AttentionCall call, const QueryTile* tiles) {
  __shared__ Shared shared;
  __shared__ SharedTile<kDims> tile;
  TileTask<kEncoding, kDims>(call, tiles[blockIdx.x], blockIdx.y, shared, tile).run();
}

}  // namespace

void attend_tiles(cudaStream_t stream, const AttentionCall& call, const QueryTile* tiles,
                  std::size_t count) {
  const bool narrow = call.layout.head_dim <= 64, q4 = call.layout.encoding == Encoding::kQ4;
  static_assert(kMostTensorHeadDim == 128);
  launch(
      {.grid = dim3(static_cast<unsigned>(count), static_cast<unsigned>(call.layout.kv_heads)),
       .block = kThreads,
       .stream = stream},
      q4 ? narrow ? attend_tiles_kernel<Encoding::kQ4, 64> : attend_tiles_kernel<Encoding::kQ4, 128>
      : narrow ? attend_tiles_kernel<Encoding::kF16, 64>
               : attend_tiles_kernel<Encoding::kF16, 128>,
      call, tiles);
}

}  // namespace barge::cuda
