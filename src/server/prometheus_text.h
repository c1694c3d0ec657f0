#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace barge {

/// Numbers in Prometheus' text format (version 0.0.4), family by family.
class PrometheusText {
 public:
  using Label = std::pair<std::string_view, std::string_view>;

  /// `labels` stand on every number.
  explicit PrometheusText(std::initializer_list<Label> labels) : common_(labels_text(labels)) {}

  /// Those that follow are of this family. `type`: counter, gauge, histogram.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void number(double value, std::initializer_list<Label> labels = {},
              std::string_view name_suffix = "");

  const std::string& text() const { return text_; }

 private:
  static std::string labels_text(std::initializer_list<Label> labels);

  const std::string common_;
  std::string family_, text_;
};

/// How often what took how long.
class LatencyHistogram {
 public:
  void add(double seconds);
  /// As the numbers of the family that was begun.
  void print(PrometheusText& out) const;

 private:
  std::vector<std::uint64_t> counts_;  // by bucket, the last without an end; empty: none yet
  double sum_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace barge
