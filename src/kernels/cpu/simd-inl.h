// What the SIMD files share, compiled once for each instruction set (Highway's "-inl.h" rule: no
// ordinary guard). Include after hwy/highway.h.
#if defined(BARGE_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BARGE_KERNELS_CPU_SIMD_INL_H_
#undef BARGE_KERNELS_CPU_SIMD_INL_H_
#else
#define BARGE_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/matrix_view.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace barge::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::CappedTag<float, 16>;
using U32Tag = hn::RebindToUnsigned<F32Tag>;
using I32Tag = hn::RebindToSigned<F32Tag>;
using F32Vec = hn::Vec<F32Tag>;
using U32Vec = hn::Vec<U32Tag>;
inline constexpr std::size_t kLanes = hn::MaxLanes(F32Tag());

// The bits of a bf16 in the upper half of each lane; ties to even. Finite numbers only.
HWY_INLINE U32Vec bf16_in_upper_half(F32Vec x) {
  const U32Tag du;
  const U32Vec u = hn::BitCast(du, x);
  const U32Vec odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1));
  return hn::Add(hn::Add(u, hn::Set(du, 0x7fff)), odd);
}

HWY_INLINE F32Vec rounded_to_bf16(F32Vec x) {
  const U32Tag du;
  return hn::BitCast(F32Tag(), hn::And(bf16_in_upper_half(x), hn::Set(du, 0xffff0000u)));
}

HWY_INLINE F32Vec load(const float* from) { return hn::LoadU(F32Tag(), from); }
HWY_INLINE F32Vec load(const F16* from) {
  const hn::Rebind<hwy::float16_t, F32Tag> d16;
  return hn::PromoteTo(F32Tag(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE F32Vec load(const BF16* from) {
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(hn::PromoteTo(U32Tag(), bits)));
}

// Codes as numbers.
HWY_INLINE F32Vec load(const std::uint8_t* codes) {
  const hn::Rebind<std::uint8_t, F32Tag> d8;
  return hn::ConvertTo(F32Tag(), hn::PromoteTo(I32Tag(), hn::LoadU(d8, codes)));
}
HWY_INLINE F32Vec load(const std::int8_t* codes) {
  const hn::Rebind<std::int8_t, F32Tag> d8;
  return hn::ConvertTo(F32Tag(), hn::PromoteTo(I32Tag(), hn::LoadU(d8, codes)));
}

HWY_INLINE void store(F32Vec x, float* to) { hn::StoreU(x, F32Tag(), to); }
HWY_INLINE void store(F32Vec x, F16* to) {
#if HWY_TARGET == HWY_SCALAR
  *to = to_f16(hn::GetLane(x));  // Highway's own drops digits instead of rounding
#else
  const hn::Rebind<hwy::float16_t, F32Tag> d16;
  hn::StoreU(hn::DemoteTo(d16, x), d16, reinterpret_cast<hwy::float16_t*>(to));
#endif
}
HWY_INLINE void store(F32Vec x, BF16* to) {
  const U32Tag du;
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  // Rounding could carry a NaN's bits over into another number: it gets the quiet bit instead.
  const U32Vec nan = hn::Or(hn::BitCast(du, x), hn::Set(du, 0x400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(x));
  const U32Vec bits = hn::ShiftRight<16>(hn::IfThenElse(is_nan, nan, bf16_in_upper_half(x)));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(I32Tag(), bits)), d16,
             reinterpret_cast<std::uint16_t*>(to));
}

// The first `count` < kLanes numbers; the other lanes are 0.
template <typename T>
HWY_INLINE F32Vec load_some(const T* from, std::size_t count) {
  T padded[kLanes] = {};
  std::memcpy(padded, from, count * sizeof(T));
  return load(padded);
}
template <typename T>
HWY_INLINE void store_some(F32Vec x, T* to, std::size_t count) {
  T padded[kLanes];
  store(x, padded);
  std::memcpy(to, padded, count * sizeof(T));
}

// Calls body(i, load, store) for i in steps of the vector length, with functions that read and
// write whole vectors at `pointer + i`, or at the end what is left of them.
template <typename Body>
HWY_INLINE void for_each_vector(std::size_t count, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    body([i](const auto* from) HWY_ATTR { return load(from + i); },
         [i](F32Vec x, auto* to) HWY_ATTR { store(x, to + i); });
  if (const std::size_t rest = count - i; rest != 0)
    body([i, rest](const auto* from) HWY_ATTR { return load_some(from + i, rest); },
         [i, rest](F32Vec x, auto* to) HWY_ATTR { store_some(x, to + i, rest); });
}

HWY_INLINE float sum_of(F32Vec x) { return hn::GetLane(hn::SumOfLanes(F32Tag(), x)); }

}  // namespace barge::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
