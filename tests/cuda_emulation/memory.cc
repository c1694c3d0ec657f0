#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "emulation.h"

namespace cuda_emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;  // as cudaMalloc promises
constexpr std::size_t kGarbageBytes = 16 << 20;
constexpr int kGarbage = 0xff;  // NaN in every format

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// A file of garbage, mapped copy-on-write: memory that nobody touches costs nothing.
int garbage_file() {
  static const int file = [] {
    const int fd = memfd_create("garbage", MFD_CLOEXEC);
    const std::vector<char> garbage(kGarbageBytes, static_cast<char>(kGarbage));
    if (fd < 0 || write(fd, garbage.data(), kGarbageBytes) != ssize_t{kGarbageBytes}) std::abort();
    return fd;
  }();
  return file;
}

}  // namespace

Memory& Memory::get() {
  static auto* memory = new Memory;  // used by threads that outlive main
  return *memory;
}

cudaError_t Memory::allocate(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  std::lock_guard lock(mutex_);
  const std::size_t used = round_up(bytes, 512);
  if (used > device_model().total_bytes - allocated_) return cudaErrorMemoryAllocation;

  const std::size_t data = round_up(round_up(bytes, kAlignment), kPage);
  const std::size_t mapped = data + 2 * kPage;
  void* base = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return cudaErrorMemoryAllocation;
  std::byte* first = static_cast<std::byte*>(base) + kPage;
  for (std::size_t at = 0; at < data; at += kGarbageBytes)
    if (mmap(first + at, std::min(data - at, kGarbageBytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, garbage_file(), 0) == MAP_FAILED)
      return cudaErrorMemoryAllocation;
  if (protection_ >= 0) mprotect(first, data, protection_);
  std::byte* result = first + data - round_up(bytes, kAlignment);
  allocated_ += used;
  device_[reinterpret_cast<std::uintptr_t>(result)] = {bytes, true, mapped,
                                                       static_cast<std::byte*>(base)};
  *pointer = result;
  return cudaSuccess;
}

cudaError_t Memory::free(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  std::lock_guard lock(mutex_);
  const auto found = device_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == device_.end() || !found->second.live) return cudaErrorInvalidValue;
  Range& range = found->second;
  range.live = false;
  allocated_ -= round_up(range.bytes, 512);
  // The addresses aren't given to others, so that whoever still uses them is seen.
  mmap(range.mapping, range.mapped_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return cudaSuccess;
}

cudaError_t Memory::register_host(void* pointer, std::size_t bytes, bool mapped) {
  if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
  std::lock_guard lock(mutex_);
  bool whole;
  const auto first = reinterpret_cast<std::uintptr_t>(pointer);
  if (find(device_, first, bytes, whole) != nullptr) return cudaErrorInvalidValue;
  if (find(pinned_, first, bytes, whole) != nullptr) return cudaErrorHostMemoryAlreadyRegistered;
  pinned_[first] = {.bytes = bytes, .live = true, .on_device = mapped};
  return cudaSuccess;
}

cudaError_t Memory::unregister_host(void* pointer) {
  std::lock_guard lock(mutex_);
  return pinned_.erase(reinterpret_cast<std::uintptr_t>(pointer)) != 0
             ? cudaSuccess
             : cudaErrorHostMemoryNotRegistered;
}

cudaError_t Memory::allocate_host(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = std::aligned_alloc(kPage, round_up(bytes, kPage));
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*pointer, kGarbage, bytes);
  return register_host(*pointer, bytes, true);
}

cudaError_t Memory::free_host(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (unregister_host(pointer) != cudaSuccess) return cudaErrorInvalidValue;
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t Memory::device_pointer(void** there, void* pointer) const {
  std::lock_guard lock(mutex_);
  bool whole;
  const Range* range = find(pinned_, reinterpret_cast<std::uintptr_t>(pointer), 1, whole);
  if (range == nullptr || !range->on_device) return cudaErrorInvalidValue;
  // Nobody can use the other address; that it differs is enough.
  constexpr std::uintptr_t kElsewhere = std::uintptr_t{1} << 60;
  *there = device_model().host_at_own_address
               ? pointer
               : reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(pointer) | kElsewhere);
  return cudaSuccess;
}

void Memory::open() { protect(PROT_READ | PROT_WRITE); }
void Memory::close() { protect(PROT_NONE); }

void Memory::protect(int protection) {
  std::lock_guard lock(mutex_);
  if (protection_ == protection) return;
  protection_ = protection;
  for (const auto& [first, range] : device_)
    if (range.live) mprotect(range.mapping + kPage, range.mapped_bytes - 2 * kPage, protection);
}

/// The range that overlaps [first, first + bytes), and whether it covers all of it.
const Memory::Range* Memory::find(const Ranges& ranges, std::uintptr_t first, std::size_t bytes,
                                  bool& whole) {
  auto next = ranges.lower_bound(first + std::max<std::size_t>(bytes, 1));
  if (next == ranges.begin()) return nullptr;
  const auto& [start, range] = *std::prev(next);
  if (start + range.bytes <= first) return nullptr;
  whole = start <= first && first + bytes <= start + range.bytes;
  return &range;
}

Memory::Place Memory::place(const void* pointer, std::size_t bytes) const {
  const auto first = reinterpret_cast<std::uintptr_t>(pointer);
  std::lock_guard lock(mutex_);
  bool whole = false;
  if (const Range* range = find(device_, first, bytes, whole))
    return whole && range->live ? Place::kDevice : Place::kInvalid;
  if (find(pinned_, first, bytes, whole) != nullptr)
    return whole ? Place::kPinned : Place::kInvalid;
  return pointer == nullptr ? Place::kInvalid : Place::kPageable;
}

std::size_t Memory::allocated_bytes() const {
  std::lock_guard lock(mutex_);
  return allocated_;
}

}  // namespace cuda_emulation
