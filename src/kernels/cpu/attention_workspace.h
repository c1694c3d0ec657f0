#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention.h"

namespace barge {

/// (new row, query head) pairs of a task, unless one row and KV head alone have more.
inline constexpr int kQueriesATask = 256;
/// Keys and values, as they are stored, that the heads of a task take from a key block.
inline constexpr int kBlockBytes = 128 << 10;
inline constexpr int kPiecesAThread = 4;

/// Heads as the small products take them: a multiple of two of the widest vectors.
constexpr std::int64_t padded_head_dim(int head_dim) { return (head_dim + 31) / 32 * 32; }

/// Hands out pieces of a workspace, each at a multiple of 64 bytes; of none (null) to add up what
/// would be needed.
class WorkspaceCutter {
 public:
  explicit WorkspaceCutter(std::byte* workspace)
      : begin_(reinterpret_cast<std::uintptr_t>(workspace)) {}

  template <typename T>
  T* take(std::int64_t count) {
    auto* area = reinterpret_cast<T*>(begin_ + taken_);
    taken_ += (sizeof(T) * static_cast<std::size_t>(count) + 63) / 64 * 64;
    return area;
  }
  std::size_t taken() const { return taken_; }

 private:
  const std::uintptr_t begin_;
  std::size_t taken_ = 0;
};

constexpr std::int64_t most_queries(int heads) { return std::max(heads, kQueriesATask); }

/// Where attend_piece keeps what in f32.
struct AttentionAreas {
  float *q, *results;  // [queries, padded]
  float* weights;      // [queries, kKeyBlock]: scores, then their exponentials
  float *most, *sum;   // [queries]: largest score, sum of the exponentials
  float* keys;         // [head_dim, kKeyBlock]: turned
  float* key_rows;     // [4, padded]: keys before they are turned
  float* values;       // [kKeyBlock, padded]
  std::size_t bytes;

  AttentionAreas(std::byte* workspace, int heads, int head_dim) {
    const std::int64_t queries = most_queries(heads), padded = padded_head_dim(head_dim);
    WorkspaceCutter cutter(workspace);
    q = cutter.take<float>(queries * padded);
    results = cutter.take<float>(queries * padded);
    weights = cutter.take<float>(queries * kKeyBlock);
    most = cutter.take<float>(queries);
    sum = cutter.take<float>(queries);
    keys = cutter.take<float>(padded * kKeyBlock);
    key_rows = cutter.take<float>(4 * padded);
    values = cutter.take<float>(kKeyBlock * padded);
    bytes = cutter.taken();
  }
};

/// Queries that go through scores, softmax and values together: what they use stays in the
/// first-level cache.
inline constexpr std::int64_t kPairStrip = 24;
/// Rows of keys that are turned together.
inline constexpr std::int64_t kPairKeys = 16;
inline constexpr std::int64_t kPairSums = 16;

/// The same in pairs of bf16, the first number of a pair in the lower half.
struct PairAreas {
  std::uint32_t* q;        // [queries, padded / 2]: of neighbouring dimensions
  float* results;          // [queries, padded]
  float* most;             // [queries]
  float* sum;              // [queries, kPairSums]: added up in the end
  std::uint32_t* keys;     // [padded / 2, kKeyBlock]: of neighbouring dimensions, turned
  std::uint32_t* values;   // [kKeyBlock / 2, padded]: of neighbouring keys
  std::uint32_t* rows;     // [kPairKeys, padded / 2]: keys before they are turned
  float *key, *value;      // [padded], [2, padded]: as they are decoded
  float* scores;           // [kPairStrip, kKeyBlock]
  std::uint32_t* weights;  // [kPairStrip, kKeyBlock / 2]: of neighbouring keys
  float* factors;          // [kPairStrip]: of what was summed before
  std::size_t bytes;

  PairAreas(std::byte* workspace, int heads, int head_dim) {
    const std::int64_t queries = most_queries(heads), padded = padded_head_dim(head_dim);
    WorkspaceCutter cutter(workspace);
    q = cutter.take<std::uint32_t>(queries * padded / 2);
    results = cutter.take<float>(queries * padded);
    most = cutter.take<float>(queries);
    sum = cutter.take<float>(queries * kPairSums);
    keys = cutter.take<std::uint32_t>(padded / 2 * kKeyBlock);
    values = cutter.take<std::uint32_t>(kKeyBlock / 2 * padded);
    rows = cutter.take<std::uint32_t>(kPairKeys * padded / 2);
    key = cutter.take<float>(padded);
    value = cutter.take<float>(2 * padded);
    scores = cutter.take<float>(kPairStrip * kKeyBlock);
    weights = cutter.take<std::uint32_t>(kPairStrip * kKeyBlock / 2);
    factors = cutter.take<float>(kPairStrip);
    bytes = cutter.taken();
  }
};

}  // namespace barge
