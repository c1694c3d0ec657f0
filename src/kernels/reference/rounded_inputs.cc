#include "kernels/reference/rounded_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/rounded_inputs.h"

namespace barge {

void round_inputs(std::span<float> row, int group) {
  for (std::size_t first = 0; first < row.size(); first += static_cast<std::size_t>(group)) {
    const auto numbers = row.subspan(first, static_cast<std::size_t>(group));
    float largest = 0;
    bool finite = true;
    for (const float x : numbers) {
      largest = std::max(largest, std::fabs(x));
      finite = finite && std::isfinite(x);
    }
    for (float& x : numbers)
      if (!finite)
        x = std::numeric_limits<float>::quiet_NaN();
      else if (largest < kLeastInput)
        x = 0;
      else
        x = std::nearbyint(x * (kLargestCode / largest)) * (largest / kLargestCode);
  }
}

}  // namespace barge
