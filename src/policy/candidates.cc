#include "policy/candidates.h"

#include <algorithm>
#include <cmath>

#include "core/bytes.h"
#include "core/row_tile.h"
#include "policy/placement.h"

namespace barge {

int planned_positions(const Workload& job, int max_positions) {
  // The longer ones of a mixed job need more than the mean; a quarter more is room for them.
  double positions = 1.25 * (job.prompt_len + job.gen_len);
  if (job.longest > 0) positions = std::min(positions, job.longest);
  return std::clamp(static_cast<int>(std::ceil(positions)), 1, max_positions);
}

std::vector<int> sweep_sizes(const PolicyWishes& wishes, const Workload& job, int sequences) {
  if (wishes.sweep_tokens) return {std::max(*wishes.sweep_tokens, sequences)};
  const auto in_tiles = [](double rows) {
    return static_cast<int>(std::ceil(rows / kRowTile) * kRowTile);
  };
  const double steady = steady_rows(job, sequences);
  const int least = in_tiles(sequences);
  std::vector<int> sizes;
  for (const double rows : {steady, 256.0, 512.0, 2048.0})
    sizes.push_back(std::max(least, in_tiles(std::min(rows, 4096.0))));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<std::size_t> rings(const ModelShape& shape, bool unified, const TierLimits& limits) {
  const std::size_t panel = shape.largest_panel_bytes();
  if (unified) return {std::max(8 * panel, 8_MiB), 0};
  const std::size_t some = std::max(32 * panel, 32_MiB);
  const std::size_t layer = shape.weight_bytes() / static_cast<std::size_t>(shape.layers);
  return {std::max(some, std::min(layer, limits.device / 16)), some, 0};
}

std::vector<int> page_sizes(const PolicyWishes& wishes) {
  if (wishes.page_positions > 0) return {wishes.page_positions};
  return {16, 64};
}

std::vector<int> batch_sizes(const PolicyWishes& wishes, const Workload& job, double block,
                             int count) {
  if (wishes.gpu_batch_size) return {*wishes.gpu_batch_size};
  const double most = std::min(block, job.num_prompts) / count;
  std::vector<int> sizes{1};
  for (const double share : {1.0, 0.97, 0.9, 0.75, 0.5, 0.25}) {
    const int size = static_cast<int>(most * share);
    sizes.push_back(size);
    const int tiles = static_cast<int>(size * count / kRowTile);
    if (tiles > 0) sizes.push_back(static_cast<int>(tiles * kRowTile / count));
  }
  for (int size = 2; size <= std::min(most, 256.0); size *= 2) sizes.push_back(size);
  sizes.push_back(static_cast<int>(std::ceil(job.num_prompts / count)));  // all in one block
  std::erase_if(sizes, [&](int size) { return size < 1 || size > std::ceil(most); });
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace barge
