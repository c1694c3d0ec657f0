#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace barge::cuda {

/// One copy between addresses that kernels can use: of device memory, or of MappedMemory.
struct CopyRange {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// What one launch takes: they are a kernel's parameters, of which there are 4 KiB.
constexpr std::size_t kCopyRangesOfALaunch = 170;

/// Whether a kernel had better copy it, beside others: its words are whole and it is small. A DMA
/// of more than 128 KiB takes longer than starting it, and takes no multiprocessors.
inline bool suits_kernel(const CopyRange& range) {
  constexpr std::size_t kWordBytes = 16, kLargest = std::size_t{128} << 10;
  const auto to = reinterpret_cast<std::uintptr_t>(range.to);
  const auto from = reinterpret_cast<std::uintptr_t>(range.from);
  return (to | from | range.bytes) % kWordBytes == 0 && range.bytes <= kLargest;
}

/// Copies all `ranges`, each of whole words of 16 bytes, in any order: what one writes, no other
/// may read or write. Gathers and scatters the pages of a KV store: dozens of cudaMemcpyAsync would
/// each cost the host a few microseconds and be a transfer of their own.
void copy_ranges(cudaStream_t stream, std::span<const CopyRange> ranges);

}  // namespace barge::cuda
