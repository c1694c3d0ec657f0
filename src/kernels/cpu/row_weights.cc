// One row of logits: its largest number, and what each weighs.
#include "kernels/cpu/row_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/draw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_weights.cc"
#include "hwy/foreach_target.h"  // must come before highway.h

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {
namespace {

// Numbers [i, i + kLanes); past the end the first of them again.
HWY_INLINE F32Vec vector_at(const float* x, std::size_t count, std::size_t i) {
  if (i + kLanes <= count) return load(x + i);
  float padded[kLanes];
  std::fill_n(padded, kLanes, x[i]);
  std::memcpy(padded, x + i, (count - i) * sizeof(float));
  return load(padded);
}

std::int32_t Likeliest(const float* x, std::size_t count) {
  const F32Tag d;
  F32Vec most = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto no_number = hn::IsNaN(most);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const F32Vec numbers = vector_at(x, count, i);
    no_number = hn::Or(no_number, hn::IsNaN(numbers));
    most = hn::Max(most, numbers);
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  if (!hn::AllFalse(d, no_number) || !std::isfinite(largest)) return -1;
  for (std::size_t i = 0;; i += kLanes) {
    const auto found = hn::Eq(vector_at(x, count, i), hn::Set(d, largest));
    if (!hn::AllFalse(d, found))
      return static_cast<std::int32_t>(i) + static_cast<std::int32_t>(hn::FindFirstTrue(d, found));
  }
}

void BlockMaxima(const float* x, std::size_t count, float* largest) {
  const F32Tag d;
  for (std::size_t first = 0; first < count; first += kMaximumBlock) {
    const std::size_t end = std::min(count, first + kMaximumBlock);
    F32Vec most = hn::Set(d, x[first]);
    for (std::size_t i = first; i < end; i += kLanes) most = hn::Max(most, vector_at(x, end, i));
    *largest++ = hn::GetLane(hn::MaxOfLanes(d, most));
  }
}

double WeighRow(const float* x, std::size_t count, float largest, float temperature, float* weights,
                double* sums) {
  const F32Tag d;
  double total = 0;
  for (std::size_t first = 0; first < count; first += kWeightBlock, ++sums) {
    const std::size_t block = std::min(kWeightBlock, count - first);
    for_each_vector(block, [&](const auto& get, const auto& put) HWY_ATTR {
      const F32Vec below = hn::Sub(get(x + first), hn::Set(d, largest));
      put(hn::Exp(d, hn::Div(below, hn::Set(d, temperature))), weights + first);
    });
    F32Vec sum = hn::Zero(d);
    for_each_vector(block, [&](const auto& get, const auto&) HWY_ATTR {
      sum = hn::Add(sum, get(static_cast<const float*>(weights + first)));
    });
    *sums = sum_of(sum);
    total += *sums;
  }
  return total;
}

}  // namespace
}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace barge {

HWY_EXPORT(Likeliest);
HWY_EXPORT(BlockMaxima);
HWY_EXPORT(WeighRow);

std::int32_t likeliest_token(std::span<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(Likeliest)(logits.data(), logits.size());
}

void block_maxima(std::span<const float> logits, float* largest) {
  HWY_DYNAMIC_DISPATCH(BlockMaxima)(logits.data(), logits.size(), largest);
}

double weigh_row(std::span<const float> logits, float largest, float temperature, float* weights,
                 double* sums) {
  return HWY_DYNAMIC_DISPATCH(WeighRow)(logits.data(), logits.size(), largest, temperature, weights,
                                        sums);
}

}  // namespace barge
#endif
