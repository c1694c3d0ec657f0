#include "kernels/cpu/elementwise.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"  // must come before highway.h

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/row_visit.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {
namespace {

using Activation = Kernels::Activation;

// x / (1 + exp(-x)); exp's argument is kept where the result is a normal number.
HWY_INLINE F32Vec silu(F32Vec x) {
  const F32Tag d;
  const F32Vec power = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 87.0f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), power));
}

// tanh-approximated GELU. From exp(30) on the result is x, and x exp(30) doesn't overflow.
HWY_INLINE F32Vec gelu_tanh(F32Vec x) {
  const F32Tag d;
  const F32Vec cube = hn::Mul(hn::Mul(x, x), x);
  const F32Vec u2 =
      hn::Mul(hn::Set(d, 2 * 0.7978845608f), hn::MulAdd(cube, hn::Set(d, 0.044715f), x));
  const F32Vec power = hn::Exp(d, hn::Min(hn::Max(u2, hn::Set(d, -87.0f)), hn::Set(d, 30.0f)));
  // 0.5 x (1 + tanh(u)) = x exp(2u) / (1 + exp(2u))
  return hn::Div(hn::Mul(x, power), hn::Add(hn::Set(d, 1.0f), power));
}

// Few models use it, and Highway has no erf: one number at a time.
HWY_INLINE F32Vec gelu_erf(F32Vec x) {
  float lane[kLanes];
  store(x, lane);
  for (float& v : lane) v = 0.5f * v * (1 + std::erf(v * 0.7071067812f));
  return load(lane);
}

HWY_INLINE F32Vec activated(Activation activation, F32Vec x) {
  switch (activation) {
    case Activation::kSilu:
      return silu(x);
    case Activation::kRelu:
      return hn::Max(x, hn::Zero(F32Tag()));
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kGeluErf:
      return gelu_erf(x);
  }
  return x;
}

void ActivateRow(Activation activation, const MatrixView& gate, const MatrixView& up,
                 const MatrixView& y, std::int64_t row) {
  const auto count = static_cast<std::size_t>(gate.cols);
  visit_row(gate, row, [&](const auto* g) {
    visit_row(y, row, [&](auto* to) {
      if (up.data == nullptr) {
        for_each_vector(count, [&](const auto& get, const auto& put)
                                   HWY_ATTR { put(activated(activation, get(g)), to); });
        return;
      }
      visit_row(up, row, [&](const auto* u) {
        for_each_vector(count, [&](const auto& get, const auto& put) HWY_ATTR {
          put(hn::Mul(activated(activation, get(g)), get(u)), to);
        });
      });
    });
  });
}

void RotateRow(float* x, std::int64_t heads, std::int64_t half, const float* cosines,
               const float* sines) {
  for (std::int64_t head = 0; head < heads; ++head, x += 2 * half) {
    float *lower = x, *upper = x + half;
    for_each_vector(static_cast<std::size_t>(half), [=](const auto& get, const auto& put) HWY_ATTR {
      const F32Vec a = get(lower), b = get(upper), c = get(cosines), s = get(sines);
      put(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), lower);
      put(hn::MulAdd(b, c, hn::Mul(a, s)), upper);
    });
  }
}

void FinishOutputs(const float* sums, std::int64_t sums_stride, const float* bias,
                   Epilogue epilogue, const MatrixView& y) {
  const bool add = epilogue == Epilogue::kAdd;
  for (std::int64_t row = 0; row < y.rows; ++row, sums += sums_stride)
    visit_row(y, row, [&](auto* to) {
      for_each_vector(static_cast<std::size_t>(y.cols),
                      [=](const auto& get, const auto& put) HWY_ATTR {
                        F32Vec value = get(sums);
                        if (bias != nullptr) value = hn::Add(value, get(bias));
                        if (add) value = hn::Add(value, get(to));
                        put(value, to);
                      });
    });
}

void PackRows(const MatrixView& x, DType dtype, std::int64_t rows, std::byte* to) {
  const MatrixView packed{to, dtype, rows, x.cols, x.cols};
  for (std::int64_t row = 0; row < x.rows; ++row)
    visit_row(x, row, [&](const auto* from) {
      visit_row(packed, row, [&](auto* out) {
        for_each_vector(static_cast<std::size_t>(x.cols),
                        [=](const auto& get, const auto& put) HWY_ATTR { put(get(from), out); });
      });
    });
  std::memset(packed.row(x.rows), 0,
              static_cast<std::size_t>((rows - x.rows) * x.cols) * size_of(dtype));
}

}  // namespace
}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace barge {

HWY_EXPORT(ActivateRow);
HWY_EXPORT(RotateRow);
HWY_EXPORT(FinishOutputs);
HWY_EXPORT(PackRows);

void activate_row(Kernels::Activation activation, const MatrixView& gate, const MatrixView& up,
                  const MatrixView& y, std::int64_t row) {
  HWY_DYNAMIC_DISPATCH(ActivateRow)(activation, gate, up, y, row);
}

void rotate_row(float* x, std::int64_t heads, std::int64_t half, const float* cosines,
                const float* sines) {
  HWY_DYNAMIC_DISPATCH(RotateRow)(x, heads, half, cosines, sines);
}

void finish_outputs(const float* sums, std::int64_t sums_stride, const float* bias,
                    Epilogue epilogue, const MatrixView& y) {
  HWY_DYNAMIC_DISPATCH(FinishOutputs)(sums, sums_stride, bias, epilogue, y);
}

void pack_rows(const MatrixView& x, DType dtype, std::int64_t rows, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(PackRows)(x, dtype, rows, to);
}

}  // namespace barge
#endif
