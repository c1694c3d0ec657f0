#pragma once

#include <cstddef>
#include <string_view>

namespace barge {

/// Zeroed, page-aligned memory straight from the system, in huge pages where the piece is large and
/// the system has them. Pages become resident as they are touched, and large pieces go back at once
/// when freed. Throws OutOfMemory, naming `tag`, if the system refuses. A page that can't be
/// touched follows: two pieces are never neighbours, so that nobody takes the end of one and the
/// beginning of the next for one range to be copied.
std::byte* map_pages(std::size_t bytes, std::string_view tag);
void unmap_pages(std::byte* data, std::size_t bytes) noexcept;

}  // namespace barge
