#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/event.h"

namespace barge {

/// Which bytes of a ring are in use: pieces are taken in order and become free in that order, each
/// after the event of its last reader. Arithmetic only; not thread-safe.
class ByteRing {
 public:
  struct Space {
    std::int64_t ticket = 0;
    std::size_t offset = 0;
  };

  explicit ByteRing(std::size_t capacity) : capacity_(capacity) {}

  /// Consecutive bytes, or nothing while older pieces are in the way. At most capacity() at once.
  std::optional<Space> try_take(std::size_t bytes);
  /// A taken piece is free again after `last_reader`. Throws Error for a ticket that isn't out.
  void release(std::int64_t ticket, Event last_reader);

  bool empty() const { return pieces_.empty(); }
  /// Whether the oldest piece was released; its last reader may not be done yet.
  bool oldest_released() const { return !pieces_.empty() && pieces_.front().released; }
  const Event& oldest_reader() const { return pieces_.front().last_reader; }
  /// Frees the oldest piece: released, and its reader done.
  void drop_oldest() { pieces_.pop_front(); }
  std::size_t capacity() const { return capacity_; }

 private:
  struct Piece {
    std::int64_t ticket;
    std::size_t begin, end;
    bool released = false;
    Event last_reader;
  };

  std::size_t capacity_;
  std::int64_t next_ticket_ = 0;
  std::deque<Piece> pieces_;  // oldest first
};

}  // namespace barge
