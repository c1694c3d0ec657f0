#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace barge {

/// Shows how far long work is, once it has taken two seconds: a bar with rate and time left where
/// standard error is a terminal, else a log line every ten seconds. One thread.
class Progress {
 public:
  /// Formats an amount of whatever is counted: `format_bytes`, or a number with its unit.
  using Format = std::function<std::string(double)>;

  Progress(std::string title, Format format);
  /// Ends the bar's line, if one was shown.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `note` stands at the end of the line ("41.2 tok/s").
  void update(double done, double total, const std::string& note = "");

 private:
  using Clock = std::chrono::steady_clock;

  const std::string title_;
  const Format format_;
  const bool terminal_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
  bool bar_shown_ = false;
};

/// "1 h 02 min", "3 min 20 s", "12 s".
std::string format_duration(double seconds);

}  // namespace barge
