#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "kernels/cpu/row_weights.h"
#include "kernels/kernels.h"

namespace barge {

/// What drawing writes down on the way. Grows to the vocabulary.
struct DrawScratch {
  std::vector<float> weights;
  std::vector<double> sums;          // of blocks of weights
  std::vector<float> largest;        // logits of blocks, twice
  std::vector<std::uint64_t> order;  // tokens, the likeliest first

  static std::size_t bytes(int vocab) {
    const auto tokens = static_cast<std::size_t>(vocab);
    return tokens * (sizeof(float) + sizeof(std::uint64_t)) +
           divide_up(tokens, kWeightBlock) * sizeof(double) +
           2 * divide_up(tokens, kMaximumBlock) * sizeof(float);
  }
};

/// The likeliest token, of equal ones the first; -1 if its logit isn't finite or any is no number.
std::int32_t likeliest_token(std::span<const float> logits);

/// One row of Kernels::draw.
std::int32_t draw_token(std::span<const float> logits, const DrawParams& params,
                        DrawScratch& scratch);

}  // namespace barge
