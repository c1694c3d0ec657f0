#include "policy/model_shape.h"

#include <algorithm>
#include <numeric>

namespace barge {

std::size_t ModelShape::weight_bytes() const {
  std::size_t sum = 0;
  for (const Matrix& m : matrices)
    sum = std::accumulate(m.panel_bytes.begin(), m.panel_bytes.end(), sum);
  return sum;
}

std::size_t ModelShape::largest_panel_bytes() const {
  std::size_t largest = 0;
  for (const Matrix& m : matrices)
    if (m.visited)
      for (const std::size_t bytes : m.panel_bytes) largest = std::max(largest, bytes);
  return largest;
}

std::int64_t ModelShape::parameters() const {
  std::int64_t sum = 0;
  for (const Matrix& m : matrices)
    if (m.visited) sum += m.rows * m.cols;
  return sum;
}

}  // namespace barge
