#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace barge {

/// What drawing writes down on the way. Grows to the vocabulary.
struct DrawScratch {
  std::vector<float> weights;
  std::vector<std::int32_t> order;

  static std::size_t bytes(int vocab) {
    return static_cast<std::size_t>(vocab) * (sizeof(float) + sizeof(std::int32_t));
  }
};

/// The likeliest token, of equal ones the first; -1 if its logit isn't finite or any is no number.
std::int32_t likeliest_token(std::span<const float> logits);

/// One row of Kernels::draw.
std::int32_t draw_token(std::span<const float> logits, const DrawParams& params,
                        DrawScratch& scratch);

}  // namespace barge
