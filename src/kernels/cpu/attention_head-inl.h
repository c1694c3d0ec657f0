// The queries of a piece that share one KV head, and the way to its keys and values; compiled once
// for each instruction set.
#if defined(BARGE_KERNELS_CPU_ATTENTION_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_ATTENTION_HEAD_INL_H_
#undef BARGE_KERNELS_CPU_ATTENTION_HEAD_INL_H_
#else
#define BARGE_KERNELS_CPU_ATTENTION_HEAD_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_workspace.h"
#include "kernels/cpu/decode-inl.h"
#include "kernels/cpu/row_visit.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

// One head of one record, to f32.
inline void decode_head(const KvFormat& format, const std::byte* codes, const std::byte* pairs,
                        float* out) {
  const auto count = static_cast<std::size_t>(format.head_dim);
  if (format.encoding == Encoding::kF32) {
    std::memcpy(out, codes, sizeof(float) * count);
    return;
  }
  if (format.encoding == Encoding::kF16) {
    const auto* from = reinterpret_cast<const F16*>(codes);
    for_each_vector(count, [=](const auto& get, const auto& put) HWY_ATTR { put(get(from), out); });
    return;
  }
  for (int first = 0; first < format.head_dim; first += format.group, pairs += 4) {
    const int end = std::min(first + format.group, format.head_dim);
    const auto [scale, low] = scale_and_low_at(pairs);
    decode_nibbles(codes, first, end - first, scale, low, out + first);
  }
}

// Queries are (row, query head) pairs, the heads of a row side by side.
class HeadOfPiece {
 public:
  // `head` counts the piece's.
  HeadOfPiece(const AttentionShape& shape, const AttentionSpan& span, const AttentionPiece& piece,
              int head)
      : shape_(shape),
        span_(span),
        piece_(piece),
        head_(head),
        kv_head_(piece.first_kv_head + head),
        group_(shape.heads / shape.format.kv_heads),
        dim_(shape.format.head_dim),
        padded_(padded_head_dim(dim_)),
        first_row_(span.first_row + piece.first_row),
        first_position_(span.first_position + piece.first_row),
        rows_(piece.rows),
        queries_(rows_ * group_) {}

 protected:
  // Keys of the block at `key` that a query sees.
  std::int64_t visible(std::int64_t query, std::int64_t key) const {
    return std::min<std::int64_t>(kKeyBlock, first_position_ + query / group_ + 1 - key);
  }
  // The first query that sees anything of the block at `key`.
  std::int64_t first_to_see(std::int64_t key) const {
    return std::max<std::int64_t>(0, key - first_position_) * group_;
  }

  // [head_dim]
  const float* query(std::int64_t query) const {
    return shape_.q.row_as<float>(first_row_ + query / group_) +
           (kv_head_ * group_ + query % group_) * dim_;
  }
  // result = from [head_dim] * factor.
  void store_result(std::int64_t query, const float* from, float factor) const {
    const F32Vec factors = hn::Set(F32Tag(), factor);
    visit_row(shape_.out, first_row_ + query / group_, [&](auto* row) {
      auto* to = row + (kv_head_ * group_ + query % group_) * dim_;
      for_each_vector(static_cast<std::size_t>(dim_),
                      [=](const auto& get, const auto& put)
                          HWY_ATTR { put(hn::Mul(get(from), factors), to); });
    });
  }

  // Decodes keys [key, key + count): visit(i, decode key into, decode value into) of each.
  template <typename Visit>
  HWY_INLINE void for_records(std::int64_t key, std::int64_t count, const Visit& visit) const {
    const KvFormat& format = shape_.format;
    const std::size_t record_bytes = format.record_bytes();
    const std::size_t k = format.k_offset(kv_head_), k_pairs = format.k_scale_offset(kv_head_);
    const std::size_t v = format.v_offset(kv_head_), v_pairs = format.v_scale_offset(kv_head_);
    const std::size_t head_bytes = format.head_bytes();
    const auto record_at = [&](std::int64_t position) {
      return span_.pages[static_cast<std::size_t>(position / shape_.page_positions)] +
             static_cast<std::size_t>(position % shape_.page_positions) * record_bytes;
    };
    const std::int64_t keys = first_position_ + rows_;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::byte* record = record_at(key + i);
      // The next block, for all heads of the piece, in the order in which it lies in memory: one
      // head's records are too far apart for the processor to guess them.
      const std::int64_t ahead = head_ * kKeyBlock + i;
      const std::int64_t later = key + kKeyBlock + ahead / piece_.kv_heads;
      if (later < keys) {
        const auto offset = static_cast<std::ptrdiff_t>(ahead % piece_.kv_heads - head_) *
                            static_cast<std::ptrdiff_t>(head_bytes);
        const std::byte* next = record_at(later) + offset;
        for (std::size_t byte = 0; byte < head_bytes; byte += kCacheLine) {
          hwy::Prefetch(next + k + byte);
          hwy::Prefetch(next + v + byte);
        }
      }
      visit(
          i, [&](float* out) { decode_head(format, record + k, record + k_pairs, out); },
          [&](float* out) { decode_head(format, record + v, record + v_pairs, out); });
    }
  }

  static constexpr std::size_t kCacheLine = 64;

  const AttentionShape& shape_;
  const AttentionSpan& span_;
  const AttentionPiece& piece_;
  const std::int64_t head_, kv_head_, group_;
  const int dim_;
  const std::int64_t padded_, first_row_, first_position_, rows_, queries_;
};

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
