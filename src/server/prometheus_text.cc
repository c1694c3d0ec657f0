#include "server/prometheus_text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace barge {
namespace {

// vLLM's, in seconds.
constexpr std::array kBuckets = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                 5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

}  // namespace

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  family_ = "barge:" + std::string(name);
  for (const auto& [word, what] : {std::pair{"HELP", help}, std::pair{"TYPE", type}})
    text_.append("# ").append(word).append(" ").append(family_).append(" ").append(what) += '\n';
}

void PrometheusText::number(double value, std::initializer_list<Label> labels,
                            std::string_view name_suffix) {
  const std::string own = labels_text(labels);
  text_.append(family_).append(name_suffix).append("{").append(common_);
  if (!own.empty()) text_.append(common_.empty() ? "" : ",").append(own);
  text_.append("} ").append(number_text(value)) += '\n';
}

std::string PrometheusText::labels_text(std::initializer_list<Label> labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!text.empty()) text += ',';
    text.append(name).append("=\"");
    for (const char c : value) {
      if (c == '\\' || c == '"') text += '\\';
      text += c;
      if (c == '\n') text.replace(text.size() - 1, 1, "\\n");
    }
    text += '"';
  }
  return text;
}

void LatencyHistogram::add(double seconds) {
  counts_.resize(kBuckets.size() + 1);
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(kBuckets, seconds) -
                                     kBuckets.begin())];
  sum_ += seconds;
  ++count_;
}

void LatencyHistogram::print(PrometheusText& out) const {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBuckets.size(); ++i) {
    if (!counts_.empty()) below += counts_[i];
    out.number(static_cast<double>(below), {{"le", number_text(kBuckets[i])}}, "_bucket");
  }
  out.number(static_cast<double>(count_), {{"le", "+Inf"}}, "_bucket");
  out.number(sum_, {}, "_sum");
  out.number(static_cast<double>(count_), {}, "_count");
}

}  // namespace barge
