#pragma once

#include <cstdint>
#include <span>

#include "quant/format.h"

namespace barge {

/// Whether `linear` rounds its inputs to 8 bits where KernelLimits::activation_bits is 8: panels of
/// one format of 4 or 8 bits, in whole groups of a multiple of 32 inputs.
inline bool inputs_are_rounded(std::span<const WeightPanel> panels) {
  for (const WeightPanel& panel : panels) {
    const auto& [encoding, group, axis] = panel.layout.format;
    if ((encoding != Encoding::kQ4 && encoding != Encoding::kQ8) || axis != GroupAxis::kInput ||
        group % 32 != 0 || panel.layout.cols % group != 0 ||
        !(panel.layout.format == panels.front().layout.format))
      return false;
  }
  return !panels.empty();
}

/// A group of inputs of which none is larger is rounded to zeros.
inline constexpr float kLeastInput = 1e-30f;
/// Codes of other groups are x * (kLargestCode / max |x|), rounded to nearest even, and stand for
/// code * (max |x| / kLargestCode).
inline constexpr float kLargestCode = 127;

}  // namespace barge
