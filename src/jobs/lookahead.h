#pragma once

#include <algorithm>
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

  /// The share of one of so many jobs that run at once.
  Lookahead shared_by(int jobs) const {
    return {.least = std::max(1, least / jobs),
            .most = std::max(1, most / jobs),
            .line_bytes = line_bytes / static_cast<std::size_t>(jobs)};
  }

  /// Whether another line is to be handed over, beside `sequences` with so many bytes of lines.
  bool wants_more(int sequences, std::size_t bytes) const {
    return sequences < least || (sequences < most && bytes < line_bytes);
  }
};

}  // namespace barge
