#include "kernels/cuda/mapped_memory.h"

#include <cuda_runtime_api.h>

#include <iterator>
#include <mutex>

namespace barge::cuda {

void MappedMemory::add(std::byte* data, std::size_t bytes) {
  void* there = nullptr;
  if (cudaHostGetDevicePointer(&there, data, 0) != cudaSuccess || there != data) return;
  const std::scoped_lock lock(mutex_);
  pieces_.emplace(data, bytes);
}

void MappedMemory::remove(std::byte* data) noexcept {
  const std::scoped_lock lock(mutex_);
  pieces_.erase(data);
}

bool MappedMemory::contains(const void* data, std::size_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::shared_lock lock(mutex_);
  const auto next = pieces_.upper_bound(first);
  if (next == pieces_.begin()) return false;
  const auto& [piece, piece_bytes] = *std::prev(next);
  const auto offset = static_cast<std::size_t>(first - piece);
  return offset <= piece_bytes && bytes <= piece_bytes - offset;
}

}  // namespace barge::cuda
