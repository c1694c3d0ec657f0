#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "kernels/kernels.h"

namespace barge {

/// The bounds of a block, from the policy and the buffers.
struct BlockLimits {
  int sequences = 0;              // in the block
  int micro_batch_sequences = 0;  // at once in attention
  int rows = 0;                   // new tokens a sweep
  int wanted_rows = 0;            // logits a sweep; at least `sequences`
  std::size_t staging_bytes = 0;  // of the KV cache, for the micro-batches under way
  bool in_halves = false;         // the CPU attends one half while the device works on the other
  bool device_draws = false;      // the tokens of plain requests
};

/// Who takes part in a sweep, with which new tokens, and whose logits are wanted. Rows of a
/// micro-batch, and of a member within it, are consecutive.
struct Block {
  struct Member {
    Sequence* sequence = nullptr;
    int first_row = 0, rows = 0;
    int first_position = 0;
    bool prompt = false;
    int first_wanted = 0, num_wanted = 0;  // rows of the logits, for its last rows
  };
  struct MicroBatch {
    std::size_t first_member = 0, num_members = 0;
  };

  /// Rows that go through a leg together, and attend micro-batch by micro-batch. Those of answers
  /// come first; as many came in the half before as `first_answer` says.
  struct Half {
    std::size_t first_micro_batch = 0, num_micro_batches = 0;
    std::int64_t first_row = 0, rows = 0;
    std::int64_t first_answer = 0, answers = 0;
  };

  std::vector<Member> members;
  std::vector<MicroBatch> micro_batches;
  std::vector<Half> halves;                      // two, or all as one
  std::vector<std::int32_t> tokens, positions;   // [rows]
  std::vector<std::int32_t> wanted;              // the rows whose logits are wanted, ascending
  std::vector<std::optional<DrawParams>> draws;  // [wanted]; where none, the host draws or scores

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  bool has_prompts() const;
};

/// The next sweep of `live` sequences, in the order in which they entered: each decoding one gets
/// its row, then prompts, urgent ones first, get chunks until rows or logits run out.
/// Deterministic.
/// `staging_needed(member)`: bytes of KV staging that a member takes; a micro-batch takes at most
/// half of limits.staging_bytes, so that the next one can be loaded beside it, unless a member
/// alone needs more. Halves have about as many keys of answers to attend to, and about as many rows
/// of prompts; a block without answers, or that can't be cut so, is one.
Block compose(std::span<Sequence* const> live, const BlockLimits& limits,
              const std::function<std::size_t(const Block::Member&)>& staging_needed);

}  // namespace barge
