// The work of a thread block of the decode attention.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/head_slice.cuh"
#include "kernels/cuda/reduce.cuh"

namespace barge::cuda {

constexpr int kChunkThreads = 128;  // in whole teams: of 1, 2, 4 ... 32 lanes

/// One number, in the type of `out`.
__device__ inline void store(const MatrixView& out, std::int64_t row, int col, float x) {
  std::byte* at = number_at(out, row, col);
  if (out.dtype == DType::kF32)
    store_number<DType::kF32>(at, x);
  else if (out.dtype == DType::kF16)
    store_number<DType::kF16>(at, x);
  else
    store_number<DType::kBF16>(at, x);
}

/// Thread blocks that share a KV head, and those of one chunk; they are neighbours, so that all but
/// the first find the records in the cache.
template <int kHeads>
__host__ __device__ inline int passes_of(const AttentionCall& call) {
  return (call.group + kHeads - 1) / kHeads;
}
template <int kHeads>
__host__ __device__ inline int tasks_a_chunk(const AttentionCall& call) {
  return call.layout.kv_heads * passes_of<kHeads>(call);
}

/// kHeads query heads of one KV head on one chunk of keys. A team of lanes shares a key: each has
/// kUnits eights of the head, of the queries and of the results. Every team sums up keys of its
/// own, in the order of positions; at the end they are merged, in the order of teams.
///   Limit: the bytes of K and V. Queries of a KV head are together, so that these come once.
template <Encoding kEncoding, int kHeads, int kUnits, bool kWhole>
class ChunkTask {
 public:
  __device__ ChunkTask(const AttentionCall& call, const RowChunk& chunk,
                       const PartialResults& partial, int team_lanes)
      : call_(call),
        chunk_(chunk),
        partial_(partial),
        lanes_(team_lanes),
        lane_(threadIdx.x % team_lanes),
        team_(threadIdx.x / team_lanes),
        teams_(kChunkThreads / team_lanes),
        reader_(call.layout, lane_, team_lanes),
        code_base_(call.layout.code_base) {
    const int task = blockIdx.x % tasks_a_chunk<kHeads>(call), passes = passes_of<kHeads>(call);
    const int kv_head = task / passes;
    first_head_ = task % passes * kHeads;
    heads_ = min(kHeads, call.group - first_head_);
    first_head_ += kv_head * call.group;
    k_ = kv_head * call.layout.head_bytes;
    pairs_ = kv_head * call.layout.pair_bytes;
  }

  __device__ void run(std::byte* shared) {
    load_queries();
    auto* records = reinterpret_cast<const std::byte**>(shared);
    const std::byte* const* pages = call_.pages + chunk_.first_page;
    for (int first = chunk_.first_key; first < chunk_.end_key; first += kChunkKeys) {
      const int count = min(static_cast<int>(kChunkKeys), chunk_.end_key - first);
      if (first != chunk_.first_key) {  // all have read the addresses before
        __syncthreads();
      }
      for (int i = threadIdx.x; i < count; i += kChunkThreads)
        records[i] = record_at(pages, call_.page_positions, call_.layout.record_bytes, first + i);
      __syncthreads();
      for (int key = 0; key < count; key += kAtOnce * teams_) add_keys(records, key, count);
    }
    __syncthreads();  // the addresses make room for results
    float* results = reinterpret_cast<float*>(shared);
    const int dims = lanes_ * kUnits * kEight;
    auto* states = reinterpret_cast<float2*>(results + teams_ * kHeads * dims);
    put_results(results, states, dims);
    __syncthreads();
    merge_teams(results, states, dims);
  }

 private:
  static constexpr bool kQ4 = kEncoding == Encoding::kQ4;
  static constexpr int kNumbers = kUnits * kEight;
  static constexpr int kAtOnce = kHeads <= 2 ? 4 : 2;  // keys of a team whose loads are in flight

  __device__ int dim_of(int number) const {
    return unit_of<kEncoding, kUnits>(lane_, number / kEight, lanes_) * kEight + number % kEight;
  }

  __device__ void load_queries() {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const auto* q = reinterpret_cast<const float*>(
          number_at(call_.q, chunk_.row, std::int64_t{first_head_ + h} * call_.layout.head_dim));
      most_[h] = -FLT_MAX;
      sum_[h] = query_sum_[h] = low_[h] = 0;
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        const bool there = h < heads_ && dim_of(i) < call_.layout.head_dim;
        const float x = there ? q[dim_of(i)] * call_.scale : 0.0f;
        query_sum_[h] += x;
        q_[h][i] = x / raw_factor<kEncoding>(i % kEight);
        value_[h][i] = 0;
      }
    }
  }

  // The team's share of keys [key, key + kAtOnce * teams) of `count`.
  __device__ void add_keys(const std::byte* const* records, int key, int count) {
    HeadSlice<kEncoding, kUnits> k[kAtOnce], v[kAtOnce];
    float scores[kAtOnce][kHeads];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      // Past the end the last key is read again, and not counted.
      const std::byte* record = records[min(key + i * teams_ + team_, count - 1)];
      k[i] = slice(record + k_, record + call_.layout.k_pairs + pairs_);
      v[i] = slice(record + call_.layout.values + k_, record + call_.layout.v_pairs + pairs_);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) multiply(k[i], scores[i]);
    for (int step = lanes_ / 2; step > 0; step /= 2)
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int h = 0; h < kHeads; ++h)
          scores[i][h] += __shfl_xor_sync(kAllLanes, scores[i][h], step);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (key + i * teams_ + team_ >= count)
#pragma unroll
        for (int h = 0; h < kHeads; ++h) scores[i][h] = -INFINITY;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) scores_to_weights(h, scores);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) add_value(v[i], scores[i]);
  }

  __device__ HeadSlice<kEncoding, kUnits> slice(const std::byte* codes,
                                                const std::byte* pairs) const {
    if constexpr (kWhole)
      return reader_.read(codes, pairs);
    else
      return reader_.read(call_.layout, codes, pairs);
  }

  __device__ void multiply(const HeadSlice<kEncoding, kUnits>& k, float (&scores)[kHeads]) const {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) scores[h] = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const Eight k_raw = k.raw(u, code_base_);
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
#pragma unroll
        for (int i = 0; i < kEight; ++i) scores[h] += q_[h][u * kEight + i] * k_raw.x[i];
    }
    if constexpr (kQ4)
#pragma unroll
      for (int h = 0; h < kHeads; ++h) scores[h] = scores[h] * k.scale + query_sum_[h] * k.low;
  }

  // Relative to the largest score so far; what was summed before is rescaled.
  __device__ void scores_to_weights(int h, float (&scores)[kAtOnce][kHeads]) {
    float most = most_[h];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) most = fmaxf(most, scores[i][h]);
    const float factor = exp2f(most_[h] - most);
    most_[h] = most;
    sum_[h] *= factor;
    low_[h] *= factor;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) value_[h][i] *= factor;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) sum_[h] += scores[i][h] = exp2f(scores[i][h] - most);
  }

  __device__ void add_value(const HeadSlice<kEncoding, kUnits>& v, const float (&weights)[kHeads]) {
    float scaled[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      scaled[h] = weights[h];
      if constexpr (kQ4) {
        scaled[h] *= v.scale;
        low_[h] += weights[h] * v.low;
      }
    }
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const Eight v_raw = v.raw(u, code_base_);
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
#pragma unroll
        for (int i = 0; i < kEight; ++i) value_[h][u * kEight + i] += scaled[h] * v_raw.x[i];
    }
  }

  // results [teams, kHeads, dims], states [teams, kHeads]: (largest score, sum of weights).
  __device__ void put_results(float* results, float2* states, int dims) const {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const int at = team_ * kHeads + h;
      if (lane_ == 0) states[at] = make_float2(most_[h], sum_[h]);
#pragma unroll
      for (int i = 0; i < kNumbers; ++i)
        results[at * dims + dim_of(i)] = value_[h][i] / raw_factor<kEncoding>(i % kEight) + low_[h];
    }
  }

  __device__ void merge_teams(const float* results, const float2* states, int dims) const {
    const int head_dim = call_.layout.head_dim;
    for (int i = threadIdx.x; i < heads_ * head_dim; i += kChunkThreads) {
      const int h = i / head_dim, dim = i % head_dim;
      float most = -FLT_MAX, sum = 0, value = 0;
      for (int team = 0; team < teams_; ++team) most = fmaxf(most, states[team * kHeads + h].x);
      for (int team = 0; team < teams_; ++team) {
        const int at = team * kHeads + h;
        const float weight = exp2f(states[at].x - most);
        sum += weight * states[at].y;
        value += weight * results[at * dims + dim];
      }
      finish(first_head_ + h, dim, most, sum, value);
    }
  }

  __device__ void finish(int head, int dim, float most, float sum, float value) const {
    const int head_dim = call_.layout.head_dim;
    if (chunk_.part < 0) {
      store(call_.out, chunk_.row, head * head_dim + dim, value / sum);
      return;
    }
    const std::int64_t at = std::int64_t{chunk_.part - partial_.first_part} * call_.heads + head;
    if (dim == 0) partial_.states[at] = make_float2(most, sum);
    partial_.values[at * head_dim + dim] = value;
  }

  const AttentionCall& call_;
  const RowChunk chunk_;
  const PartialResults& partial_;
  const int lanes_, lane_, team_, teams_;
  const SliceReader<kEncoding, kUnits, kWhole> reader_;
  const unsigned code_base_;
  int first_head_, heads_, k_, pairs_;
  float q_[kHeads][kNumbers], value_[kHeads][kNumbers];
  float most_[kHeads], sum_[kHeads];
  float query_sum_[kHeads], low_[kHeads];  // 4-bit: sum of q, and of weight * low
};

}  // namespace barge::cuda
