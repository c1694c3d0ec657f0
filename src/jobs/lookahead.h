#pragma once

#include <cstddef>

namespace barge {

/// How much of a job is handed to a generator at a time: sequences that run, and some to choose
/// from next. The more it sees, the better a job drains: sequences that run long begin before the
/// last blocks.
struct Lookahead {
  int least = 16;                                 // sequences, however long their lines are
  int most = 64;                                  // sequences, however short
  std::size_t line_bytes = std::size_t{4} << 20;  // beyond `least`: while lines are within this

  static Lookahead of_block(int sequences) {
    return {.least = 2 * sequences, .most = 8 * sequences};
  }

  /// Whether another line is to be handed over, beside `sequences` with so many bytes of lines.
  bool wants_more(int sequences, std::size_t bytes) const {
    return sequences < least || (sequences < most && bytes < line_bytes);
  }
};

}  // namespace barge
