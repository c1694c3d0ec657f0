#pragma once

#include <span>

namespace barge {

/// A row of inputs as `linear` sees it where activation_bits is 8: each group's numbers rounded to
/// codes of 8 bits, and back. NaN in groups with a number that isn't finite.
void round_inputs(std::span<float> row, int group);

}  // namespace barge
