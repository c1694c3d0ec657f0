#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "cuda_runtime_api.h"

namespace cuda_emulation {

/// Device and pinned memory. Device memory is filled with garbage, ends at a page that can't be
/// touched (up to 255 bytes later), and can't be touched any more once it is freed. Thread-safe.
class Memory {
 public:
  /// Where a range lies; kInvalid: it goes beyond its allocation, or that was freed.
  enum class Place : std::uint8_t { kDevice, kPinned, kPageable, kInvalid };

  static Memory& get();

  cudaError_t allocate(void** pointer, std::size_t bytes);
  cudaError_t free(void* pointer);
  /// `mapped`: kernels may touch it, at the host's address.
  cudaError_t register_host(void* pointer, std::size_t bytes, bool mapped);
  cudaError_t unregister_host(void* pointer);
  cudaError_t allocate_host(void** pointer, std::size_t bytes);
  cudaError_t free_host(void* pointer);
  cudaError_t device_pointer(void** there, void* pointer) const;

  /// Whether device memory can be touched: not by the host, whose mistakes a GPU would punish so.
  void open();
  void close();

  Place place(const void* pointer, std::size_t bytes) const;
  std::size_t allocated_bytes() const;

 private:
  struct Range {
    std::size_t bytes;
    bool live;  // else freed device memory
    std::size_t mapped_bytes = 0;
    std::byte* mapping = nullptr;
    bool on_device = false;  // pinned memory that kernels may touch
  };
  using Ranges = std::map<std::uintptr_t, Range>;  // by first address

  void protect(int protection);
  static const Range* find(const Ranges& ranges, std::uintptr_t first, std::size_t bytes,
                           bool& whole);

  mutable std::mutex mutex_;
  Ranges device_, pinned_;
  std::size_t allocated_ = 0;
  int protection_ = -1;  // of device memory; -1: as it was mapped
};

}  // namespace cuda_emulation
