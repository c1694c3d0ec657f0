#include "policy/curve.h"

#include <algorithm>
#include <cmath>

namespace barge {

Curve Curve::fit(std::vector<Point> points) {
  struct Level {
    double sum = 0;
    std::size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Level> levels;
  for (const Point& point : points) {
    levels.push_back({point.rate, 1});
    while (levels.size() > 1 && levels[levels.size() - 2].mean() > levels.back().mean()) {
      const Level last = levels.back();
      levels.pop_back();
      levels.back().sum += last.sum;
      levels.back().count += last.count;
    }
  }
  Curve curve(std::move(points));
  auto point = curve.points_.begin();
  for (const Level& level : levels)
    for (std::size_t i = 0; i < level.count; ++i, ++point) {
      curve.residual_ = std::max(curve.residual_, std::abs(point->rate / level.mean() - 1));
      point->rate = level.mean();
    }
  return curve;
}

double Curve::at(double size) const {
  if (points_.empty()) return 0;
  if (size <= points_.front().size) return points_.front().rate * size / points_.front().size;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const Point &a = points_[i - 1], &b = points_[i];
    if (size <= b.size) return a.rate + (b.rate - a.rate) * (size - a.size) / (b.size - a.size);
  }
  return points_.back().rate;
}

}  // namespace barge
