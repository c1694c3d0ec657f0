#include "core/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {
constexpr std::size_t kGuardBytes = 4096;
}  // namespace

std::byte* map_pages(std::size_t bytes, std::string_view tag) {
  void* at = mmap(nullptr, bytes + kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
    throw OutOfMemory(concat("the system refused ", format_bytes(bytes), " of memory for ", tag,
                             ": ", std::strerror(errno)));
  return static_cast<std::byte*>(at);
}

void unmap_pages(std::byte* data, std::size_t bytes) noexcept { munmap(data, bytes + kGuardBytes); }

}  // namespace barge
