#include "engine/block.h"

#include <algorithm>
#include <cstdlib>

#include "engine/sampler.h"

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

void add(Block& block, Sequence& sequence, int rows, bool prompt, bool device_draws) {
  const bool drawn_there = device_draws && sequence.request.is_plain();
  Block::Member member{.sequence = &sequence,
                       .first_row = static_cast<int>(block.tokens.size()),
                       .rows = rows,
                       .first_position = sequence.fed,
                       .prompt = prompt,
                       .first_wanted = static_cast<int>(block.wanted.size())};
  for (int position = sequence.fed; position < sequence.fed + rows; ++position) {
    if (sequence.wants_logits(position)) {
      block.wanted.push_back(static_cast<std::int32_t>(block.tokens.size()));
      block.draws.emplace_back();
      if (drawn_there)
        block.draws.back() = draw_params(sequence.request.sampling, sequence.answer.size());
    }
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

Block::Half half_of(const Block& block, std::size_t begin, std::size_t end) {
  const Block::MicroBatch& last = block.micro_batches[end - 1];
  const Block::Member& last_member = block.members[last.first_member + last.num_members - 1];
  const int first_row = block.members[block.micro_batches[begin].first_member].first_row;
  return {.first_micro_batch = begin,
          .num_micro_batches = end - begin,
          .first_row = first_row,
          .rows = last_member.first_row + last_member.rows - first_row};
}

// Where the keys that answers attend to are cut most evenly: the CPU should take as long for one
// half as for the other.
std::size_t middle(const Block& block) {
  std::vector<std::int64_t> before{0};  // keys of so many micro-batches
  for (const Block::MicroBatch& batch : block.micro_batches) {
    before.push_back(before.back());
    for (std::size_t i = 0; i < batch.num_members; ++i) {
      const Block::Member& member = block.members[batch.first_member + i];
      if (!member.prompt) before.back() += member.first_position + member.rows;
    }
  }
  const auto unevenness = [&](std::size_t cut) {
    return std::abs(2 * before[cut] - before.back());
  };
  std::size_t best = 1;
  for (std::size_t cut = 2; cut < block.micro_batches.size(); ++cut)
    if (unevenness(cut) < unevenness(best)) best = cut;
  return best;
}

void halve(Block& block, bool in_halves) {
  const std::size_t batches = block.micro_batches.size();
  if (batches == 0) return;
  const bool has_answers = !block.members.front().prompt;  // they come first
  const std::size_t cut = in_halves && has_answers && batches > 1 ? middle(block) : batches;
  block.halves.push_back(half_of(block, 0, cut));
  if (cut < batches) block.halves.push_back(half_of(block, cut, batches));
}

}  // namespace

bool Block::has_prompts() const {
  return std::any_of(members.begin(), members.end(), [](const Member& m) { return m.prompt; });
}

Block compose(std::span<Sequence* const> live, const BlockLimits& limits,
              const std::function<std::size_t(const Block::Member&)>& staging_needed) {
  Block block;
  for (Sequence* sequence : live)
    if (sequence->prompt_left() == 0)
      add(block, *sequence, 1, /*prompt=*/false, limits.device_draws);
  for (Sequence* sequence : live) {
    if (sequence->prompt_left() == 0) continue;
    const int rows = chunk_rows(*sequence, limits.rows - static_cast<int>(block.tokens.size()),
                                limits.wanted_rows - static_cast<int>(block.wanted.size()));
    if (rows > 0) add(block, *sequence, rows, /*prompt=*/true, limits.device_draws);
  }
  cut(block, limits, staging_needed);
  halve(block, limits.in_halves);
  return block;
}

}  // namespace barge
