// Attention of prompts in pairs of bf16, for processors that multiply those (AVX-512 BF16);
// compiled once for each instruction set.
#if defined(BARGE_KERNELS_CPU_ATTENTION_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_ATTENTION_PAIRS_INL_H_
#undef BARGE_KERNELS_CPU_ATTENTION_PAIRS_INL_H_
#else
#define BARGE_KERNELS_CPU_ATTENTION_PAIRS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/attention_head-inl.h"
#include "kernels/cpu/pair_product-inl.h"
#include "kernels/cpu/turned_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

#pragma GCC push_options
#pragma GCC target("avx512bf16")

// 2^x for x <= 0. The fraction's power by a polynomial, off by 3e-6 at most (fitted for the least
// greatest relative error on [0, 1)): weights are rounded to bf16 anyway.
inline F32Vec power_of_2(F32Vec x) {
  const F32Tag d;
  const F32Vec fraction{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF)};
  F32Vec power = hn::Set(d, 0.013534168f);
  for (const float c : {0.052011462f, 0.24144275f, 0.69300384f, 1.0000026f})
    power = hn::MulAdd(power, fraction, hn::Set(d, c));
  return F32Vec{_mm512_scalef_ps(power.raw, x.raw)};  // times 2^floor(x)
}

// Sums over the keys of a block start from zero and run in the order of pairs of keys, then join
// what was there before: a pair of weights that are zero changes no bit, so that rows may be taken
// together that see differently many keys.
class PairTask : HeadOfPiece {
 public:
  // `areas`: of all heads of the piece.
  PairTask(const AttentionShape& shape, const AttentionSpan& span, const AttentionPiece& piece,
           int head, PairAreas areas)
      : HeadOfPiece(shape, span, piece, head),
        pairs_(padded_ / 2),
        factor_(shape.scale * 1.44269504f),  // log2(e): weights are powers of 2
        areas_(areas) {
    areas_.q += head * queries_ * pairs_;
    areas_.results += head * queries_ * padded_;
    areas_.most += head * queries_;
    areas_.sum += head * queries_ * kPairSums;
    // Columns past the heads' end stay zero.
    std::fill_n(areas_.key, padded_, 0.0f);
    std::fill_n(areas_.value, 2 * padded_, 0.0f);
    for (std::int64_t query = 0; query < queries_; ++query) {
      std::copy_n(this->query(query), dim_, areas_.key);
      to_pairs(areas_.key, padded_, areas_.q + query * pairs_);
    }
    std::fill_n(areas_.most, queries_, -std::numeric_limits<float>::infinity());
    std::fill_n(areas_.sum, queries_ * kPairSums, 0.0f);
    std::fill_n(areas_.results, queries_ * padded_, 0.0f);
  }

  void step(std::int64_t key, std::int64_t count) {
    const bool finite = decode_block(key, count);
    const std::int64_t from = first_to_see(key);
    if (finite) {
      for (std::int64_t query = from; query < queries_; query += kPairStrip)
        attend(query, std::min(kPairStrip, queries_ - query), key);
      return;
    }
    // Zero times infinity would be seen: the last query first, values go as they are out of sight.
    for (std::int64_t query = queries_ - 1; query >= from; --query) {
      hide_values(visible(query, key));
      attend(query, 1, key);
    }
  }

  void store_results() {
    for (std::int64_t query = 0; query < queries_; ++query)
      store_result(query, areas_.results + query * padded_,
                   1.0f / sum_of(load(areas_.sum + query * kPairSums)));
  }

 private:
  // Whether all values are finite numbers.
  bool decode_block(std::int64_t key, std::int64_t count) {
    float *const even = areas_.value, *const odd = even + padded_;
    bool finite = true;
    for_records(key, count, [&](std::int64_t i, const auto& decode_key, const auto& decode_value) {
      decode_key(areas_.key);
      to_pairs(areas_.key, padded_, areas_.rows + i % kPairKeys * pairs_);
      // The last few may be turned together with what earlier keys left: nobody sees those.
      if (i % kPairKeys == kPairKeys - 1 || i + 1 == count) turn_keys(i / kPairKeys * kPairKeys);
      decode_value(i % 2 == 0 ? even : odd);
      if (i % 2 == 0) {
        if (i + 1 < count) return;
        std::fill_n(odd, padded_, 0.0f);
      }
      interleave_pairs(even, odd, padded_, areas_.values + i / 2 * padded_);
      finite = finite && are_finite(even, 2 * padded_);
    });
    return finite;
  }

  static bool are_finite(const float* numbers, std::int64_t count) {
    F32Vec sum = hn::Zero(F32Tag());
    for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(kLanes))
      sum = hn::MulAdd(load(numbers + i), hn::Zero(F32Tag()), sum);
    return sum_of(sum) == 0;
  }

  void turn_keys(std::int64_t first) {
    for (std::int64_t pair = 0; pair < pairs_; pair += kTurned)
      put_turned([&](int r) { return hn::LoadU(U32Tag(), areas_.rows + r * pairs_ + pair); },
                 reinterpret_cast<std::uint16_t*>(areas_.keys + pair * kKeyBlock + first),
                 2 * kKeyBlock);
  }

  // Of keys [first, kKeyBlock) of the block.
  void hide_values(std::int64_t first) {
    if (first % 2 != 0) {
      std::uint32_t* const pair = areas_.values + first / 2 * padded_;
      for (std::int64_t c = 0; c < padded_; ++c) pair[c] &= 0xffff;
    }
    const std::int64_t gone = (first + 1) / 2;
    std::fill_n(areas_.values + gone * padded_, (kKeyBlock / 2 - gone) * padded_, 0u);
  }

  // Queries [first, first + count), a strip at most, to the block at `key`, of which all see some.
  void attend(std::int64_t first, std::int64_t count, std::int64_t key) {
    const std::int64_t seen = visible(first + count - 1, key);
    multiply_pairs<Joins::kNothing>(areas_.q + first * pairs_, pairs_, areas_.keys, kKeyBlock,
                                    areas_.scores, kKeyBlock, count, (dim_ + 1) / 2,
                                    (seen + 31) / 32 * 32);
    for (std::int64_t r = 0; r < count; ++r) weigh(r, first + r, visible(first + r, key));
    multiply_pairs<Joins::kScaled>(areas_.weights, kKeyBlock / 2, areas_.values, padded_,
                                   areas_.results + first * padded_, padded_, count, (seen + 1) / 2,
                                   padded_, areas_.factors);
  }

  // Scores in row r of the strip to weights, relative to the query's largest score so far.
  void weigh(std::int64_t r, std::int64_t query, std::int64_t seen) {
    const F32Tag d;
    constexpr int kVectors = kKeyBlock / static_cast<int>(kLanes);
    const F32Vec never = hn::Set(d, -std::numeric_limits<float>::infinity());
    const F32Vec factor = hn::Set(d, factor_);
    F32Vec scores[kVectors], most = never;
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t rest = seen - v * static_cast<std::int64_t>(kLanes);
      const auto sees = hn::FirstN(d, static_cast<std::size_t>(std::max<std::int64_t>(rest, 0)));
      const float* const from = areas_.scores + r * kKeyBlock + v * static_cast<int>(kLanes);
      scores[v] = hn::IfThenElse(sees, hn::Mul(load(from), factor), never);
      most = hn::Max(most, scores[v]);
    }
    const float before = areas_.most[query];
    const float now = std::max(before, hn::GetLane(hn::MaxOfLanes(d, most)));
    F32Vec sum = hn::Zero(d);
    for (F32Vec& score : scores) {
      score = hn::IfThenElseZero(hn::Ne(score, never), power_of_2(hn::Sub(score, hn::Set(d, now))));
      sum = hn::Add(sum, score);
    }
    for (int v = 0; v < kVectors; v += 2)
      hn::StoreU(pairs_of(scores[v], scores[v + 1]), U32Tag(),
                 areas_.weights + (r * kKeyBlock + v * static_cast<int>(kLanes)) / 2);
    const float kept = now == before ? 1.0f : std::exp2(before - now);
    areas_.factors[r] = kept;
    areas_.most[query] = now;
    float* const all = areas_.sum + query * kPairSums;
    store(hn::MulAdd(load(all), hn::Set(d, kept), sum), all);
  }

  const std::int64_t pairs_;
  const float factor_;
  PairAreas areas_;
};

#pragma GCC pop_options

#endif

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
