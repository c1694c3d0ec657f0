#include "kernels/cpu/norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"  // must come before highway.h

#include "hwy/highway.h"
#include "kernels/cpu/row_visit.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {
namespace {

// Sum of (x - mean)^2. The lanes past the end must not count as (0 - mean)^2.
float squares(const float* x, std::size_t count, float mean) {
  const F32Tag d;
  const F32Vec center = hn::Set(d, mean);
  F32Vec sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const F32Vec difference = hn::Sub(load(x + i), center);
    sum = hn::MulAdd(difference, difference, sum);
  }
  if (i < count) {
    const F32Vec difference =
        hn::IfThenElseZero(hn::FirstN(d, count - i), hn::Sub(load_some(x + i, count - i), center));
    sum = hn::MulAdd(difference, difference, sum);
  }
  return sum_of(sum);
}

template <typename T>
void rms_norm_to(const float* x, std::size_t count, const float* weight, float eps, T* y) {
  const float mean_square = squares(x, count, 0) / static_cast<float>(count);
  const F32Vec factor = hn::Set(F32Tag(), 1.0f / std::sqrt(mean_square + eps));
  for_each_vector(count, [=](const auto& get, const auto& put)
                             HWY_ATTR { put(hn::Mul(hn::Mul(get(x), factor), get(weight)), y); });
}

template <typename T>
void layer_norm_to(const float* x, std::size_t count, const float* weight, const float* bias,
                   float eps, T* y) {
  const F32Tag d;
  F32Vec sum = hn::Zero(d);
  for_each_vector(count,
                  [&](const auto& get, const auto&) HWY_ATTR { sum = hn::Add(sum, get(x)); });
  const float mean = sum_of(sum) / static_cast<float>(count);
  const float variance = squares(x, count, mean) / static_cast<float>(count);
  const F32Vec center = hn::Set(d, mean), factor = hn::Set(d, 1.0f / std::sqrt(variance + eps));
  for_each_vector(count, [=](const auto& get, const auto& put) HWY_ATTR {
    put(hn::MulAdd(hn::Mul(hn::Sub(get(x), center), factor), get(weight), get(bias)), y);
  });
}

void RmsNormRow(const MatrixView& x, std::int64_t row, const float* weight, float eps,
                const MatrixView& y) {
  visit_row(y, row, [&](auto* to) {
    rms_norm_to(x.row_as<float>(row), static_cast<std::size_t>(x.cols), weight, eps, to);
  });
}

void LayerNormRow(const MatrixView& x, std::int64_t row, const float* weight, const float* bias,
                  float eps, const MatrixView& y) {
  visit_row(y, row, [&](auto* to) {
    layer_norm_to(x.row_as<float>(row), static_cast<std::size_t>(x.cols), weight, bias, eps, to);
  });
}

}  // namespace
}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace barge {

HWY_EXPORT(RmsNormRow);
HWY_EXPORT(LayerNormRow);

void rms_norm_row(const MatrixView& x, std::int64_t row, const float* weight, float eps,
                  const MatrixView& y) {
  HWY_DYNAMIC_DISPATCH(RmsNormRow)(x, row, weight, eps, y);
}

void layer_norm_row(const MatrixView& x, std::int64_t row, const float* weight, const float* bias,
                    float eps, const MatrixView& y) {
  HWY_DYNAMIC_DISPATCH(LayerNormRow)(x, row, weight, bias, eps, y);
}

}  // namespace barge
#endif
