#pragma once

#include <vector>

namespace barge {

/// A rate that was measured at a few sizes, and grows with the size: straight between the points,
/// constant beyond the last one, proportional to the size below the first.
class Curve {
 public:
  struct Point {
    double size = 0, rate = 0;
  };

  Curve() = default;
  /// `points` by ascending, positive sizes, with rates that don't fall.
  explicit Curve(std::vector<Point> points) : points_(std::move(points)) {}

  /// The nearest curve to measured `points` that doesn't fall (least squares: neighbours that fall
  /// become their mean).
  static Curve fit(std::vector<Point> points);

  double at(double size) const;
  /// The rate of large sizes; 0 of an empty curve.
  double most() const { return points_.empty() ? 0 : points_.back().rate; }
  bool empty() const { return points_.empty(); }
  const std::vector<Point>& points() const { return points_; }
  /// Largest distance of a measured rate to the curve, as a share of the latter. Only of a fit.
  double residual() const { return residual_; }

 private:
  std::vector<Point> points_;
  double residual_ = 0;
};

}  // namespace barge
