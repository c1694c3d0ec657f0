#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/block.h"

namespace barge {

/// What one sweep did, in counts from which it can be said how fast it could have been.
struct SweepRecord {
  double seconds = 0;  // until its tokens were there; where it has none, until it was given away
  std::int64_t prompt_rows = 0, answer_rows = 0;  // tokens fed
  std::int64_t logit_rows = 0;                    // rows of the output layer
  std::int64_t keys = 0;                          // that all rows attend to, added up
  /// KV cache that generated positions look back on: each is read once for its sequence's row.
  std::int64_t read_positions = 0;
  std::size_t kv_read_bytes = 0, kv_written_bytes = 0;  // of the disk
  std::size_t kv_down_bytes = 0, kv_up_bytes = 0;       // of the link

  bool prefill() const { return prompt_rows > 0; }
};

/// The counts of a block; the traffic and the time are the caller's matter.
SweepRecord record_of(const Block& block);

}  // namespace barge
