#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <shared_mutex>

namespace barge::cuda {

/// Which host memory kernels can read and write, at the host's own addresses: pinned memory that
/// the driver mapped so. Of other addresses nothing is known. Thread-safe.
class MappedMemory {
 public:
  /// Adds pinned memory, unless the device has it at another address or not at all.
  void add(std::byte* data, std::size_t bytes);
  /// Before it is given back; nothing happens if it isn't there.
  void remove(std::byte* data) noexcept;
  bool contains(const void* data, std::size_t bytes) const;

 private:
  mutable std::shared_mutex mutex_;  // guards what follows
  std::map<const std::byte*, std::size_t, std::less<>> pieces_;
};

}  // namespace barge::cuda
