#include "kernels/cuda/arena.h"

#include <algorithm>
#include <iterator>

namespace barge::cuda {

Arena::Arena(std::size_t bytes) {
  if (bytes > 0) free_.emplace(0, bytes);
}

std::optional<std::size_t> Arena::take(std::size_t bytes) {
  const auto place =
      std::find_if(free_.begin(), free_.end(), [&](const auto& p) { return p.second >= bytes; });
  if (place == free_.end()) return std::nullopt;
  const auto [offset, found] = *place;
  free_.erase(place);
  if (found > bytes) free_.emplace(offset + bytes, found - bytes);
  return offset;
}

void Arena::give_back(std::size_t offset, std::size_t bytes) {
  const auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

std::size_t Arena::largest_free() const {
  std::size_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace barge::cuda
