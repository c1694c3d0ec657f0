#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace barge::cuda {

/// Which parts of one piece of memory are taken: offsets only. The lowest free place that is large
/// enough is taken first; neighbours that are free become one. One thread.
class Arena {
 public:
  explicit Arena(std::size_t bytes);

  /// An offset that is a multiple of 4096, or nothing if no free place is large enough.
  /// `bytes` is a multiple of 4096 too.
  std::optional<std::size_t> take(std::size_t bytes);
  /// What `take` gave, with the same size.
  void give_back(std::size_t offset, std::size_t bytes);

  std::size_t largest_free() const;

 private:
  std::map<std::size_t, std::size_t> free_;  // bytes by offset
};

}  // namespace barge::cuda
