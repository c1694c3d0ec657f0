#include "policy/bits.h"

#include <algorithm>
#include <utility>

namespace barge {
namespace {

constexpr double kFastEnough = 0.97;

std::pair<int, int> width(const BitsOption& option) { return {option.weight_bits, option.kv_bits}; }

}  // namespace

std::size_t widest_of_the_fast(std::span<const BitsOption> options) {
  double fastest = 0;
  for (const BitsOption& option : options)
    fastest = std::max(fastest, option.generated_tokens_per_s);
  const auto narrower = [](const BitsOption& a, const BitsOption& b) {
    return width(a) < width(b);
  };
  auto best = std::min_element(options.begin(), options.end(), narrower);
  for (auto option = options.begin(); fastest > 0 && option != options.end(); ++option) {
    const bool is_fast = option->generated_tokens_per_s >= kFastEnough * fastest;
    const bool best_is_fast = best->generated_tokens_per_s >= kFastEnough * fastest;
    if (is_fast && (!best_is_fast || narrower(*best, *option))) best = option;
  }
  return static_cast<std::size_t>(best - options.begin());
}

}  // namespace barge
