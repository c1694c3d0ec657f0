#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/family.h"

namespace barge {

/// Consecutive parts of a sweep that rows go through without meeting attention on the way, unless
/// at the end. Where the CPU attends, the halves of a block take turns leg by leg: one goes through
/// the device while the CPU attends the other.
struct Leg {
  std::size_t first_part = 0, num_parts = 0;
  bool in_halves = false;  // else the whole block goes through at once: embedding and output
};

std::vector<Leg> legs_of(std::span<const Part> parts);

}  // namespace barge
