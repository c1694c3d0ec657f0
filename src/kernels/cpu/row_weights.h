#pragma once

#include <cstddef>
#include <span>

namespace barge {

/// Tokens whose weights are added up by themselves, so that a draw passes most of them by block.
inline constexpr std::size_t kWeightBlock = 256;

/// weights[i] = exp((logits[i] - largest) / temperature); sums[b] = those of block b. Returns the
/// sum of them all. weights [logits], sums [logits / kWeightBlock, rounded up]. Thread-safe.
double weigh_row(std::span<const float> logits, float largest, float temperature, float* weights,
                 double* sums);

/// Tokens whose largest logit is found by itself, so that a search for the likeliest few passes
/// most of them by block.
inline constexpr std::size_t kMaximumBlock = 64;

/// largest[b] = the largest logit of block b; no logit is NaN. largest [logits / kMaximumBlock,
/// rounded up]. Thread-safe.
void block_maxima(std::span<const float> logits, float* largest);

}  // namespace barge
