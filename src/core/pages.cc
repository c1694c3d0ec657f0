#include "core/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {

std::byte* map_pages(std::size_t bytes, std::string_view tag) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    throw OutOfMemory(concat("the system refused ", format_bytes(bytes), " of memory for ", tag,
                             ": ", std::strerror(errno)));
  return static_cast<std::byte*>(at);
}

void unmap_pages(std::byte* data, std::size_t bytes) noexcept { munmap(data, bytes); }

}  // namespace barge
