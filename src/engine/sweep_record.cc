#include "engine/sweep_record.h"

namespace barge {

SweepRecord record_of(const Block& block) {
  SweepRecord record;
  record.logit_rows = static_cast<std::int64_t>(block.wanted.size());
  for (const Block::Member& member : block.members) {
    (member.prompt ? record.prompt_rows : record.answer_rows) += member.rows;
    const std::int64_t rows = member.rows, before = member.first_position;
    record.keys += rows * before + rows * (rows + 1) / 2;
    if (!member.prompt) record.read_positions += before + rows;
  }
  return record;
}

}  // namespace barge
