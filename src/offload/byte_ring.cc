#include "offload/byte_ring.h"

#include <algorithm>

#include "core/errors.h"

namespace barge {

std::optional<ByteRing::Space> ByteRing::try_take(std::size_t bytes) {
  if (bytes > capacity_)
    throw Error(concat("a ring of ", capacity_, " bytes can't hold a piece of ", bytes));
  std::size_t begin = 0;
  if (!pieces_.empty()) {
    const std::size_t head = pieces_.back().end, tail = pieces_.front().begin;
    if (head > tail) {  // in use: [tail, head)
      if (bytes <= capacity_ - head)
        begin = head;
      else if (bytes > tail)  // wrapping leaves the rest of the end unused for a while
        return std::nullopt;
    } else {  // free: [head, tail)
      if (bytes > tail - head) return std::nullopt;
      begin = head;
    }
  }
  pieces_.push_back({.ticket = next_ticket_, .begin = begin, .end = begin + bytes});
  return Space{next_ticket_++, begin};
}

void ByteRing::release(std::int64_t ticket, Event last_reader) {
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](const Piece& piece) { return piece.ticket == ticket; });
  if (piece == pieces_.end() || piece->released)
    throw Error(concat("ring piece ", ticket, " was released twice or never taken"));
  piece->released = true;
  piece->last_reader = std::move(last_reader);
}

}  // namespace barge
