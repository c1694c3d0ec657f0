#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"  // must come before highway.h

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_head-inl.h"
#include "kernels/cpu/attention_pairs-inl.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/small_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {
namespace {

// to[d * kKeyBlock + i] = rows[i][d] for four keys.
void turn_four(const float* rows, std::int64_t stride, int head_dim, float* to) {
  const float *r0 = rows, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
  int c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; c + 4 <= head_dim; c += 4) {
    const auto a = hn::LoadU(d, r0 + c), b = hn::LoadU(d, r1 + c);
    const auto e = hn::LoadU(d, r2 + c), f = hn::LoadU(d, r3 + c);
    const auto ab_low = hn::InterleaveLower(d, a, b), ab_high = hn::InterleaveUpper(d, a, b);
    const auto ef_low = hn::InterleaveLower(d, e, f), ef_high = hn::InterleaveUpper(d, e, f);
    float* at = to + c * kKeyBlock;
    hn::StoreU(hn::ConcatLowerLower(d, ef_low, ab_low), d, at);
    hn::StoreU(hn::ConcatUpperUpper(d, ef_low, ab_low), d, at + kKeyBlock);
    hn::StoreU(hn::ConcatLowerLower(d, ef_high, ab_high), d, at + 2 * kKeyBlock);
    hn::StoreU(hn::ConcatUpperUpper(d, ef_high, ab_high), d, at + 3 * kKeyBlock);
  }
#endif
  for (; c < head_dim; ++c) {
    const float four[] = {r0[c], r1[c], r2[c], r3[c]};
    std::memcpy(to + c * kKeyBlock, four, sizeof four);
  }
}

// a[0] * b[0] + ... + a[n - 1] * b[n - 1].
HWY_INLINE float dot(const float* a, const float* b, std::size_t n) {
  F32Vec even = hn::Zero(F32Tag()), odd = even;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even = hn::MulAdd(load(a + i), load(b + i), even);
    odd = hn::MulAdd(load(a + i + kLanes), load(b + i + kLanes), odd);
  }
  for (; i < n; i += kLanes) {
    const std::size_t rest = std::min(kLanes, n - i);
    even = hn::MulAdd(load_some(a + i, rest), load_some(b + i, rest), even);
  }
  return sum_of(hn::Add(even, odd));
}

// Answers whose query heads are so few to a KV head score each key as it is decoded: turning keys
// for a product would cost more than the product.
constexpr std::int64_t kFewHeads = 4;
constexpr std::int64_t kColumnStep = 2 * static_cast<std::int64_t>(kLanes);  // of multiply_rows
constexpr std::int64_t kFewQueries = 4;

// Attends in f32. Steps through the key blocks; what it keeps from one to the next is its own, so
// that several heads can take turns at a block.
class HeadTask : HeadOfPiece {
 public:
  // `areas`: of all heads of the piece.
  HeadTask(const AttentionShape& shape, const AttentionSpan& span, const AttentionPiece& piece,
           int head, AttentionAreas areas)
      : HeadOfPiece(shape, span, piece, head),
        scores_at_once_(!span.prompt && group_ <= kFewHeads),
        areas_(areas) {
    areas_.q += head * queries_ * padded_;
    areas_.results += head * queries_ * padded_;
    areas_.most += head * queries_;
    areas_.sum += head * queries_;
    // Columns past the heads' end stay zero.
    std::fill_n(areas_.values, kKeyBlock * padded_, 0.0f);
    load_queries();
  }

  void step(std::int64_t key, std::int64_t count) {
    decode_block(key, count);
    const std::int64_t from = first_to_see(key);
    if (!scores_at_once_)
      multiply_rows(areas_.q + from * padded_, padded_, areas_.keys, kKeyBlock,
                    areas_.weights + from * kKeyBlock, kKeyBlock, queries_ - from, dim_,
                    (count + kColumnStep - 1) / kColumnStep * kColumnStep, /*add=*/false);
    for (std::int64_t query = from; query < queries_; ++query)
      softmax_step(query, visible(query, key));
    add_values(from, key);
  }

  void store_results() {
    for (std::int64_t query = 0; query < queries_; ++query)
      store_result(query, areas_.results + query * padded_, 1.0f / areas_.sum[query]);
  }

 private:
  void load_queries() {
    const F32Vec factor = hn::Set(F32Tag(), shape_.scale);
    for (std::int64_t query = 0; query < queries_; ++query) {
      const float* from = this->query(query);
      float* to = areas_.q + query * padded_;
      for_each_vector(static_cast<std::size_t>(dim_),
                      [=](const auto& get, const auto& put)
                          HWY_ATTR { put(hn::Mul(get(from), factor), to); });
      areas_.most[query] = -std::numeric_limits<float>::infinity();
      areas_.sum[query] = 0;
    }
    std::fill_n(areas_.results, queries_ * padded_, 0.0f);
  }

  void decode_block(std::int64_t key, std::int64_t count) {
    for_records(key, count, [&](std::int64_t i, const auto& decode_key, const auto& decode_value) {
      float* const row = areas_.key_rows + i % 4 * padded_;
      decode_key(row);
      decode_value(areas_.values + i * padded_);
      if (scores_at_once_) score(i, row);
      // The last few may be turned together with what earlier keys left: nobody sees those.
      else if (i % 4 == 3 || i + 1 == count)
        turn_four(areas_.key_rows, padded_, dim_, areas_.keys + i / 4 * 4);
    });
  }

  // Of key i of the block, with all queries.
  void score(std::int64_t i, const float* key) {
    for (std::int64_t query = 0; query < queries_; ++query)
      areas_.weights[query * kKeyBlock + i] =
          dot(areas_.q + query * padded_, key, static_cast<std::size_t>(dim_));
  }

  // Scores to weights, relative to the largest score so far; rescales what was summed before.
  void softmax_step(std::int64_t query, std::int64_t visible_keys) {
    const F32Tag d;
    const auto limit = static_cast<std::size_t>(visible_keys);
    float* w = areas_.weights + query * kKeyBlock;
    const F32Vec never = hn::Set(d, -std::numeric_limits<float>::infinity());
    F32Vec most = never;
    for (std::size_t i = 0; i < limit; i += kLanes) {
      F32Vec score = load(w + i);
      if (i + kLanes > limit) score = hn::IfThenElse(hn::FirstN(d, limit - i), score, never);
      most = hn::Max(most, score);
      store(score, w + i);
    }
    const float before = areas_.most[query];
    const float now = std::max(before, hn::GetLane(hn::MaxOfLanes(d, most)));
    F32Vec sum = hn::Zero(d);
    for (std::size_t i = 0; i < limit; i += kLanes) {
      const F32Vec weight = hn::Exp(d, hn::Sub(load(w + i), hn::Set(d, now)));
      sum = hn::Add(sum, weight);
      store(weight, w + i);
    }
    const float factor = now == before ? 1.0f : std::exp(before - now);
    areas_.most[query] = now;
    areas_.sum[query] = areas_.sum[query] * factor + sum_of(sum);
    if (factor == 1.0f) return;
    float* result = areas_.results + query * padded_;
    for (std::int64_t i = 0; i < padded_; i += static_cast<std::int64_t>(kLanes))
      store(hn::Mul(load(result + i), hn::Set(d, factor)), result + i);
  }

  // results += weights * values. What a query doesn't see isn't touched, not even times zero.
  void add_values(std::int64_t from, std::int64_t key) {
    // Queries from `all` on see the whole block.
    const std::int64_t all =
        std::clamp((key + kKeyBlock - 1 - first_position_) * group_, from, queries_);
    // The others by positions, a few at a time where these have too few queries for a product.
    const std::int64_t together = group_ * std::max<std::int64_t>(1, kFewQueries / group_);
    for (std::int64_t query = from; query < all; query += together) {
      const std::int64_t end = std::min(query + together, all), common = visible(query, key);
      add_values(query, end - query, 0, common);
      for (std::int64_t more = query + group_; more < end; more += group_)
        add_values(more, group_, common, visible(more, key));
    }
    add_values(all, queries_ - all, 0, kKeyBlock);
  }

  // The same of keys [first, end) of the block, for queries that all see them.
  void add_values(std::int64_t query, std::int64_t count, std::int64_t first, std::int64_t end) {
    multiply_rows(areas_.weights + query * kKeyBlock + first, kKeyBlock,
                  areas_.values + first * padded_, padded_, areas_.results + query * padded_,
                  padded_, count, end - first, padded_, /*add=*/true);
  }

  const bool scores_at_once_;
  AttentionAreas areas_;
};

// The heads of a piece take turns at each key block: their records lie side by side.
template <typename Task, typename Areas>
void attend_with(const AttentionShape& shape, const AttentionSpan& span,
                 const AttentionPiece& piece, const Areas& areas) {
  std::vector<Task> heads;
  for (int head = 0; head < piece.kv_heads; ++head)
    heads.emplace_back(shape, span, piece, head, areas);
  const std::int64_t keys = std::int64_t{span.first_position} + piece.first_row + piece.rows;
  for (std::int64_t key = 0; key < keys; key += kKeyBlock)
    for (Task& head : heads) head.step(key, std::min<std::int64_t>(kKeyBlock, keys - key));
  for (Task& head : heads) head.store_results();
}

void AttendPiece(const AttentionShape& shape, const AttentionSpan& span,
                 const AttentionPiece& piece, std::byte* workspace) {
  const int dim = shape.format.head_dim;
#if HWY_TARGET == HWY_AVX3
  if (span.prompt && shape.bf16_prompts && has_bf16_pairs()) {
    attend_with<PairTask>(shape, span, piece, PairAreas(workspace, shape.heads, dim));
    return;
  }
#endif
  attend_with<HeadTask>(shape, span, piece, AttentionAreas(workspace, shape.heads, dim));
}

}  // namespace
}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace barge {

HWY_EXPORT(AttendPiece);

void attend_piece(const AttentionShape& shape, const AttentionSpan& span,
                  const AttentionPiece& piece, std::byte* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendPiece)(shape, span, piece, workspace);
}

}  // namespace barge
#endif
