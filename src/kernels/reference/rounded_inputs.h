#pragma once

#include <span>

#include "core/dtype.h"

namespace barge {

inline float rounded_to(DType type, float x) {
  return type == DType::kF32 ? x : type == DType::kF16 ? to_f32(to_f16(x)) : to_f32(to_bf16(x));
}

/// A row of inputs as `linear` sees it where activation_bits is 8: each group's numbers rounded to
/// codes of 8 bits, and back. NaN in groups with a number that isn't finite.
void round_inputs(std::span<float> row, int group);

}  // namespace barge
