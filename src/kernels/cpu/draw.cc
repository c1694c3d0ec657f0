#include "kernels/cpu/draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace barge {
namespace {

// Draws by falling logits, of those that top_k and top_p keep. Sorts no more tokens than it keeps,
// but for a factor.
std::int32_t draw_truncated(std::span<const float> logits, const DrawParams& params,
                            DrawScratch& scratch) {
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto weight = [&](std::int32_t id) {
    return scratch.weights[static_cast<std::size_t>(id)];
  };
  std::vector<std::int32_t>& order = scratch.order;
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto end = order.end();
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < order.size()) {
    end = order.begin() + params.top_k;
    std::nth_element(order.begin(), end, order.end(), better);
    std::sort(order.begin(), end, better);
  }
  double total = 0;
  for (auto it = order.begin(); it != end; ++it) total += weight(*it);

  // Keeps the likeliest tokens until their weights reach top_p of the total.
  const double enough = params.top_p < 1 ? params.top_p * total : total;
  auto kept = order.begin(), sorted = order.begin();
  double sum = 0;
  std::ptrdiff_t step = 64;
  while (kept != end && (kept == order.begin() || sum < enough)) {
    if (kept == sorted) {
      sorted = end - kept > step ? kept + step : end;
      if (sorted != end) std::nth_element(kept, sorted, end, better);
      std::sort(kept, sorted, better);
      step *= 4;
    }
    sum += weight(*kept++);
  }
  double left = params.uniform * sum;
  for (auto it = order.begin(); it != kept; ++it) {
    left -= weight(*it);
    if (left < 0) return *it;
  }
  return *(kept - 1);
}

}  // namespace

std::int32_t likeliest_token(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) return -1;
    if (logits[i] > logits[best]) best = i;
  }
  return std::isfinite(logits[best]) ? static_cast<std::int32_t>(best) : -1;
}

std::int32_t draw_token(std::span<const float> logits, const DrawParams& params,
                        DrawScratch& scratch) {
  const std::int32_t likeliest = likeliest_token(logits);
  if (likeliest < 0 || params.temperature < kGreedyTemperature) return likeliest;
  const float largest = logits[static_cast<std::size_t>(likeliest)];
  std::vector<float>& weights = scratch.weights;
  weights.resize(logits.size());
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((logits[i] - largest) / params.temperature);
    total += weights[i];
  }
  if (params.top_k > 0 || params.top_p < 1) return draw_truncated(logits, params, scratch);
  double left = params.uniform * total;
  std::int32_t last = 0;  // rounding may leave a rest at the end: then the last that has a chance
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (weights[i] == 0) continue;
    last = static_cast<std::int32_t>(i);
    left -= weights[i];
    if (left < 0) break;
  }
  return last;
}

}  // namespace barge
