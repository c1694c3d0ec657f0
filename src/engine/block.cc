#include "engine/block.h"

#include <algorithm>

namespace barge {
namespace {

// The longest chunk of a prompt that fits what is left of a sweep: its last rows may want logits.
int chunk_rows(const Sequence& sequence, int rows_left, int wanted_left) {
  int rows = std::min(sequence.prompt_left(), rows_left);
  if (sequence.request.prompt_logprobs) {
    // Each row wants logits, but for the prompt's last one where no answer is asked for.
    const bool free_row = rows == sequence.prompt_left() && sequence.request.max_tokens == 0;
    return rows <= wanted_left + (free_row ? 1 : 0) ? rows : wanted_left;
  }
  const bool ends = rows == sequence.prompt_left() && sequence.request.max_tokens > 0;
  return ends && wanted_left == 0 ? rows - 1 : rows;
}

void add(Block& block, Sequence& sequence, int rows, bool prompt) {
  Block::Member member{.sequence = &sequence,
                       .first_row = static_cast<int>(block.tokens.size()),
                       .rows = rows,
                       .first_position = sequence.fed,
                       .prompt = prompt,
                       .first_wanted = static_cast<int>(block.wanted.size())};
  for (int position = sequence.fed; position < sequence.fed + rows; ++position) {
    if (sequence.wants_logits(position))
      block.wanted.push_back(static_cast<std::int32_t>(block.tokens.size()));
    block.tokens.push_back(sequence.token_at(position));
    block.positions.push_back(position);
  }
  member.num_wanted = static_cast<int>(block.wanted.size()) - member.first_wanted;
  block.members.push_back(member);
}

void cut(Block& block, const BlockLimits& limits,
         const std::function<std::size_t(const Block::Member&)>& staging_needed) {
  std::size_t staged = 0;
  for (std::size_t i = 0; i < block.members.size(); ++i) {
    const std::size_t needed = staging_needed(block.members[i]);
    const bool full = block.micro_batches.empty() ||
                      block.micro_batches.back().num_members ==
                          static_cast<std::size_t>(limits.micro_batch_sequences) ||
                      (needed > 0 && staged + needed > limits.staging_bytes / 2 && staged > 0);
    if (full) {
      block.micro_batches.push_back({.first_member = i, .num_members = 0});
      staged = 0;
    }
    ++block.micro_batches.back().num_members;
    staged += needed;
  }
}

}  // namespace

bool Block::has_prompts() const {
  return std::any_of(members.begin(), members.end(), [](const Member& m) { return m.prompt; });
}

Block compose(std::span<Sequence* const> live, const BlockLimits& limits,
              const std::function<std::size_t(const Block::Member&)>& staging_needed) {
  Block block;
  for (Sequence* sequence : live)
    if (sequence->prompt_left() == 0) add(block, *sequence, 1, /*prompt=*/false);
  for (Sequence* sequence : live) {
    if (sequence->prompt_left() == 0) continue;
    const int rows = chunk_rows(*sequence, limits.rows - static_cast<int>(block.tokens.size()),
                                limits.wanted_rows - static_cast<int>(block.wanted.size()));
    if (rows > 0) add(block, *sequence, rows, /*prompt=*/true);
  }
  cut(block, limits, staging_needed);
  return block;
}

}  // namespace barge
