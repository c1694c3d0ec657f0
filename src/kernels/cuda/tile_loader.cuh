// How keys and values of a prefill tile get from records to shared memory.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/head_slice.cuh"
#include "kernels/cuda/reduce.cuh"

namespace barge::cuda {

constexpr int kTileKeys = 32;  // of a block of the prefill's online softmax

/// Where a thread block keeps the keys of a block, then its values: as f16, in rows that are padded
/// so that neighbouring ones begin in other banks.
template <int kDims>
struct SharedTile {
  static constexpr int kStride = kDims + 8;

  alignas(32) __half numbers[kTileKeys * kStride];
  const std::byte* records[2][kTileKeys];
  int not_finite[kTileKeys];  // values with a number that is none
};

/// One thread's share of the tiles of a thread block of kThreads. The caller's barriers separate
/// calls that write from those that read.
template <Encoding kEncoding, int kDims, int kThreads>
class TileLoader {
 public:
  __device__ TileLoader(const AttentionCall& call, const QueryTile& tile, int kv_head, int last_key,
                        SharedTile<kDims>& shared)
      : call_(call),
        layout_(call.layout),
        pages_(call.pages + tile.first_page),
        codes_(kv_head * call.layout.head_bytes),
        pairs_(kv_head * call.layout.pair_bytes),
        last_key_(last_key),
        shared_(shared),
        reader_(call.layout, column_, kUnits) {}

  /// Where keys [key, key + kTileKeys) are.
  __device__ void find_records(int slot, int key) {
    if (threadIdx.x < kTileKeys)  // keys past the end are the last one again; nobody sees them
      shared_.records[slot][threadIdx.x] =
          record_at(pages_, call_.page_positions, layout_.record_bytes,
                    min(key + static_cast<int>(threadIdx.x), last_key_));
  }

  /// Sends for them, into registers.
  __device__ void fetch_keys(int slot) { fetch(slot, codes_, layout_.k_pairs + pairs_); }
  __device__ void fetch_values(int slot) {
    fetch(slot, layout_.values + codes_, layout_.v_pairs + pairs_);
  }

  /// Puts down what was fetched. Past the head's end are numbers that meet zeros of q, and results
  /// that nobody stores.
  __device__ void put_keys() {
    // Nobody reads the notes about the values of the block before any more.
    if (threadIdx.x < kTileKeys) shared_.not_finite[threadIdx.x] = 0;
#pragma unroll
    for (int i = 0; i < kFetches; ++i) put(i, halves_of(fetched_[i]));
  }
  /// A value that isn't finite is noted and left out: it would spoil queries that don't see it.
  __device__ void put_values() {
#pragma unroll
    for (int i = 0; i < kFetches; ++i) {
      uint4 words = halves_of(fetched_[i]);
      if (!(is_finite(words.x) && is_finite(words.y) && is_finite(words.z) && is_finite(words.w))) {
        shared_.not_finite[unit(i) / kUnits] = 1;
        words = make_uint4(0, 0, 0, 0);
      }
      put(i, words);
    }
  }

 private:
  static constexpr int kUnits = kDims / kEight, kFetches = kTileKeys * kUnits / kThreads;

  // The tile's units, row by row. A thread's are all of one column.
  static_assert(kThreads % kUnits == 0);
  __device__ static int unit(int i) { return static_cast<int>(threadIdx.x) + i * kThreads; }

  __device__ void fetch(int slot, int codes, int pairs) {
#pragma unroll
    for (int i = 0; i < kFetches; ++i) {
      const std::byte* record = shared_.records[slot][unit(i) / kUnits];
      fetched_[i] = layout_.head_dim % kEight == 0
                        ? reader_.read(record + codes, record + pairs)
                        : SliceReader<kEncoding, 1, false>(layout_, column_, kUnits)
                              .read(layout_, record + codes, record + pairs);
    }
  }

  __device__ void put(int i, const uint4& words) {
    __half* row = &shared_.numbers[unit(i) / kUnits * SharedTile<kDims>::kStride];
    *reinterpret_cast<uint4*>(row + column_ * kEight) = words;
  }

  __device__ static bool is_finite(unsigned two_halves) {
    return (two_halves & 0x7c00u) != 0x7c00u && (two_halves & 0x7c000000u) != 0x7c000000u;
  }
  __device__ uint4 halves_of(const HeadSlice<kEncoding, 1>& slice) const {
    if constexpr (kEncoding == Encoding::kF16) {
      return slice.words[0];
    } else {
      const Eight raw = slice.raw(0, layout_.code_base);
      float x[kEight];
#pragma unroll
      for (int i = 0; i < kEight; ++i)  // rounded once: code * scale has 15 bits
        x[i] = raw.x[i] / raw_factor<kEncoding>(i) * slice.scale + slice.low;
      return make_uint4(f16_pair(x[0], x[1]), f16_pair(x[2], x[3]), f16_pair(x[4], x[5]),
                        f16_pair(x[6], x[7]));
    }
  }

  const AttentionCall& call_;
  const RecordLayout& layout_;
  const std::byte* const* pages_;
  const int codes_, pairs_, last_key_;
  SharedTile<kDims>& shared_;
  const int column_ = static_cast<int>(threadIdx.x) % kUnits;
  const SliceReader<kEncoding, 1, true> reader_;
  HeadSlice<kEncoding, 1> fetched_[kFetches];
};

}  // namespace barge::cuda
