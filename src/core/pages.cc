#include "core/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

constexpr std::size_t kGuardBytes = 4096;
// What processors map at once if it is aligned so. Large pieces are streamed through: in small
// pages products would spend their time looking up addresses, and the disk's driver would hand
// each request to the disk in hundreds of segments.
constexpr std::size_t kHugePageBytes = 2_MiB;

// Address space, `bytes` of it from a multiple of `alignment`; MAP_FAILED and errno.
void* map_aligned(std::size_t bytes, std::size_t alignment) {
  void* const map = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED || alignment == 0) return map;
  auto* const begin = static_cast<std::byte*>(map);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = round_up(address, alignment) - address;
  if (before > 0) munmap(begin, before);
  if (before < alignment) munmap(begin + before + bytes, alignment - before);
  return begin + before;
}

}  // namespace

std::byte* map_pages(std::size_t bytes, std::string_view tag) {
  const bool large = bytes >= kHugePageBytes;
  void* const at = map_aligned(bytes + kGuardBytes, large ? kHugePageBytes : 0);
  if (at == MAP_FAILED || mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
    throw OutOfMemory(concat("the system refused ", format_bytes(bytes), " of memory for ", tag,
                             ": ", std::strerror(errno)));
  if (large) madvise(at, bytes, MADV_HUGEPAGE);  // a wish: kernels without them go on as before
  return static_cast<std::byte*>(at);
}

void unmap_pages(std::byte* data, std::size_t bytes) noexcept { munmap(data, bytes + kGuardBytes); }

}  // namespace barge
