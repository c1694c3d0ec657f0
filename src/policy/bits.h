#pragma once

#include <cstddef>
#include <span>

namespace barge {

/// Bits that weights and KV cache may have, and what the best plan with them promises.
struct BitsOption {
  int weight_bits = 4, kv_bits = 16;
  double generated_tokens_per_s = 0;  // 0: nothing fits
};

/// Which of them to take where the user leaves that to the plan: more bits are better answers, so
/// the widest, weights first, that lose no more than 3 % of the fastest's speed. `options` has at
/// least one; where nothing fits, the narrowest.
std::size_t widest_of_the_fast(std::span<const BitsOption> options);

}  // namespace barge
