#include "kernels/cpu/draw.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace barge {
namespace {

// Falling logits and then rising indices, as one number that rises.
std::uint64_t order_of(float logit, std::size_t token) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);  // no negative zero
  const std::uint32_t rising = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return std::uint64_t{~rising} << 32 | token;
}
std::size_t token_of(std::uint64_t order) { return order & 0xffffffffu; }

// scratch.order = the `count` likeliest tokens in order. Where `count` blocks reach a number, so do
// as many tokens: only those that do are looked at.
void sort_likeliest(std::span<const float> logits, std::size_t count, DrawScratch& scratch) {
  std::vector<float>& largest = scratch.largest;  // of each block
  std::vector<std::uint64_t>& order = scratch.order;
  const std::size_t blocks = divide_up(logits.size(), kMaximumBlock);
  largest.clear();
  order.clear();
  const auto block = [&](std::size_t b) {
    const std::size_t first = b * kMaximumBlock;
    return logits.subspan(first, std::min(kMaximumBlock, logits.size() - first));
  };
  float least = logits[0];
  const bool all = count > blocks;
  if (!all) {
    largest.resize(2 * blocks);
    block_maxima(logits, largest.data());
    const auto copy = largest.begin() + static_cast<std::ptrdiff_t>(blocks);
    std::copy_n(largest.begin(), blocks, copy);
    const auto nth = copy + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(copy, nth, largest.end(), std::greater<>());
    least = *nth;
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    if (!all && largest[b] < least) continue;
    std::size_t token = b * kMaximumBlock;
    for (const float logit : block(b)) {
      if (all || logit >= least) order.push_back(order_of(logit, token));
      ++token;
    }
  }
  if (order.size() > count) {
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                     order.end());
    order.resize(count);
  }
  std::sort(order.begin(), order.end());
}

// Draws by falling logits, of those that top_k and top_p keep. Sorts few more tokens than it keeps.
// `total`: of all weights.
std::int32_t draw_truncated(std::span<const float> logits, const DrawParams& params, double total,
                            DrawScratch& scratch) {
  const auto weight = [&](std::uint64_t order) { return scratch.weights[token_of(order)]; };
  std::size_t most = logits.size();  // that top_k keeps
  const bool cut = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < most;
  if (cut) most = static_cast<std::size_t>(params.top_k);
  for (std::size_t count = cut ? most : std::min<std::size_t>(most, 64);;
       count = std::min(8 * count, most)) {
    sort_likeliest(logits, count, scratch);
    if (cut) {
      total = 0;
      for (const std::uint64_t order : scratch.order) total += weight(order);
    }
    // Keeps the likeliest tokens until their weights reach top_p of the total.
    const double enough = params.top_p < 1 ? params.top_p * total : total;
    double sum = 0;
    auto kept = scratch.order.begin();
    while (kept != scratch.order.end() && (kept == scratch.order.begin() || sum < enough))
      sum += weight(*kept++);
    if (sum < enough && count < most) continue;
    double left = params.uniform * sum;
    for (auto it = scratch.order.begin(); it != kept; ++it) {
      left -= weight(*it);
      if (left < 0) return static_cast<std::int32_t>(token_of(*it));
    }
    return static_cast<std::int32_t>(token_of(*(kept - 1)));
  }
}

// Draws by index, of all. Whole blocks of weights are passed by their sums.
std::int32_t draw_of_all(double left, const DrawScratch& scratch) {
  const std::vector<float>& weights = scratch.weights;
  std::size_t block = 0;
  for (; block + 1 < scratch.sums.size() && left >= scratch.sums[block]; ++block)
    left -= scratch.sums[block];
  for (std::size_t i = block * kWeightBlock; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  // Rounding has left a rest: the last that has a chance.
  const auto last =
      std::find_if(weights.rbegin(), weights.rend(), [](float weight) { return weight > 0; });
  return static_cast<std::int32_t>(weights.rend() - last) - 1;
}

}  // namespace

std::int32_t draw_token(std::span<const float> logits, const DrawParams& params,
                        DrawScratch& scratch) {
  const std::int32_t likeliest = likeliest_token(logits);
  if (likeliest < 0 || params.temperature < kGreedyTemperature) return likeliest;
  scratch.weights.resize(logits.size());
  scratch.sums.resize(divide_up(logits.size(), kWeightBlock));
  const double total = weigh_row(logits, logits[static_cast<std::size_t>(likeliest)],
                                 params.temperature, scratch.weights.data(), scratch.sums.data());
  if (params.top_k > 0 || params.top_p < 1) return draw_truncated(logits, params, total, scratch);
  return draw_of_all(params.uniform * total, scratch);
}

}  // namespace barge
