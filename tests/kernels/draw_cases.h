#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "kernels/kernels.h"

namespace barge {

/// What can be asked of a draw.
inline constexpr DrawParams kDrawKinds[] = {{.temperature = 1},
                                            {.temperature = 0.3f},
                                            {.temperature = 1, .top_k = 1},
                                            {.temperature = 1, .top_k = 10},
                                            {.temperature = 2, .top_k = 100000},
                                            {.temperature = 1, .top_p = 0.9f},
                                            {.temperature = 5, .top_p = 0.999f},
                                            {.temperature = 1, .top_p = 1e-9f},
                                            {.temperature = 0.7f, .top_k = 40, .top_p = 0.8f}};

/// Whether the choice hangs on rounding: each weight is within 2 ulp of an exact exponential on
/// both sides, 2^-22 of it, and so are a sum of some and the sum of all; so a border between two
/// tokens may be off by 2^-20 of the sum. Order and borders are exact here.
inline bool near_a_border(const std::vector<float>& row, const DrawParams& params) {
  constexpr double kRounding = 0x1p-20;
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  if (params.top_k > 0 || params.top_p < 1)
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < order.size())
    order.resize(static_cast<std::size_t>(params.top_k));
  const float largest = *std::max_element(row.begin(), row.end());
  std::vector<double> through;  // the sum of the weights up to each token of the order
  for (const std::size_t i : order)
    through.push_back((through.empty() ? 0 : through.back()) +
                      std::exp(static_cast<double>((row[i] - largest) / params.temperature)));
  const auto near = [&](double point) {
    return std::any_of(through.begin(), through.end(), [&](double border) {
      return std::fabs(border - point) <= kRounding * through.back();
    });
  };
  double sum = through.back();
  if (params.top_p < 1) {
    if (near(params.top_p * sum)) return true;
    sum = *std::lower_bound(through.begin(), through.end(), params.top_p * sum);
  }
  return near(params.uniform * sum);
}

}  // namespace barge
