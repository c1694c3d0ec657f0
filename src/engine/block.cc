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

// Rows that a sequence gets in a sweep.
struct Chunk {
  Sequence* sequence;
  int rows;
  bool prompt;

  std::int64_t keys() const { return sequence->fed + rows; }
};

// A row for each that decodes, then chunks of prompts, urgent ones first. Returns how many of the
// first there are.
std::size_t deal(std::span<Sequence* const> live, const BlockLimits& limits,
                 std::vector<Chunk>& chunks) {
  int rows_left = limits.rows, wanted_left = limits.wanted_rows;
  const auto take = [&](Sequence* sequence, int rows, bool prompt) {
    chunks.push_back({sequence, rows, prompt});
    rows_left -= rows;
    for (int position = sequence->fed; position < sequence->fed + rows; ++position)
      wanted_left -= sequence->wants_logits(position) ? 1 : 0;
  };
  for (Sequence* sequence : live)
    if (sequence->prompt_left() == 0) take(sequence, 1, /*prompt=*/false);
  const std::size_t answers = chunks.size();
  for (const bool urgent : {true, false})
    for (Sequence* sequence : live) {
      if (sequence->prompt_left() == 0 || sequence->request.urgent != urgent) continue;
      const int rows = chunk_rows(*sequence, rows_left, wanted_left);
      if (rows > 0) take(sequence, rows, /*prompt=*/true);
    }
  return answers;
}

// Before which of them their `weight`s are cut most evenly.
std::size_t middle(std::span<const Chunk> chunks,
                   const std::function<std::int64_t(const Chunk&)>& weight) {
  std::int64_t all = 0, before = 0;
  for (const Chunk& chunk : chunks) all += weight(chunk);
  std::size_t best = 0;
  std::int64_t least = all;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    before += weight(chunks[i]);
    const std::int64_t unevenness = std::abs(2 * before - all);
    if (unevenness >= least) continue;
    least = unevenness;
    best = i + 1;
  }
  return best;
}

// Puts the chunks of each half together, its answers first: the CPU should take as long for one
// half as for the other, and so should the device, or one waits while the other works. Returns
// where the second half begins; 0: there is only one.
std::size_t arrange_halves(std::vector<Chunk>& chunks, std::size_t answers) {
  if (answers == 0) return 0;
  const std::span<const Chunk> all(chunks);
  const std::size_t first = middle(all.first(answers), &Chunk::keys);
  const std::size_t prompts =
      middle(all.subspan(answers), [](const Chunk& chunk) { return chunk.rows; });
  const auto at = [&](std::size_t i) { return chunks.begin() + static_cast<std::ptrdiff_t>(i); };
  std::rotate(at(first), at(answers), at(answers + prompts));
  return first + prompts;
}

void cut(Block& block, const BlockLimits& limits, std::size_t second_half,
         const std::function<std::size_t(const Block::Member&)>& staging_needed) {
  std::size_t staged = 0;
  for (std::size_t i = 0; i < block.members.size(); ++i) {
    const std::size_t needed = staging_needed(block.members[i]);
    const bool full = block.micro_batches.empty() || i == second_half ||
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

void add_halves(Block& block, std::size_t second_half) {
  for (std::size_t b = 0; b < block.micro_batches.size(); ++b) {
    const Block::MicroBatch& batch = block.micro_batches[b];
    if (b == 0 || batch.first_member == second_half) {
      Block::Half next{.first_micro_batch = b,
                       .first_row = block.members[batch.first_member].first_row};
      if (b > 0) next.first_answer = block.halves.front().answers;
      block.halves.push_back(next);
    }
    Block::Half& half = block.halves.back();
    ++half.num_micro_batches;
    for (std::size_t i = 0; i < batch.num_members; ++i) {
      const Block::Member& member = block.members[batch.first_member + i];
      half.rows += member.rows;
      if (!member.prompt) ++half.answers;
    }
  }
}

}  // namespace

bool Block::has_prompts() const {
  return std::any_of(members.begin(), members.end(), [](const Member& m) { return m.prompt; });
}

Block compose(std::span<Sequence* const> live, const BlockLimits& limits,
              const std::function<std::size_t(const Block::Member&)>& staging_needed) {
  std::vector<Chunk> chunks;
  const std::size_t answers = deal(live, limits, chunks);
  const std::size_t second_half = limits.in_halves ? arrange_halves(chunks, answers) : 0;
  Block block;
  for (const Chunk& chunk : chunks)
    add(block, *chunk.sequence, chunk.rows, chunk.prompt, limits.device_draws);
  cut(block, limits, second_half, staging_needed);
  add_halves(block, second_half);
  return block;
}

}  // namespace barge
