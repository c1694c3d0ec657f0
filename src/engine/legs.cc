#include "engine/legs.h"

namespace barge {

std::vector<Leg> legs_of(std::span<const Part> parts) {
  std::vector<Leg> legs;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Part::Kind kind = parts[p].kind;
    const bool in_halves = kind == Part::Kind::kAttention || kind == Part::Kind::kMlp;
    const bool begins = legs.empty() || in_halves != legs.back().in_halves ||
                        parts[p - 1].kind == Part::Kind::kAttention;
    if (begins) legs.push_back({.first_part = p, .num_parts = 0, .in_halves = in_halves});
    ++legs.back().num_parts;
  }
  return legs;
}

}  // namespace barge
