#include "core/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/errors.h"
#include "core/log.h"

namespace barge {

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "unknown";
  const auto whole = static_cast<long long>(std::llround(seconds));
  std::array<char, 48> text;
  if (whole >= 3600)
    std::snprintf(text.data(), text.size(), "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  else if (whole >= 60)
    std::snprintf(text.data(), text.size(), "%lld min %02lld s", whole / 60, whole % 60);
  else
    std::snprintf(text.data(), text.size(), "%lld s", whole);
  return text.data();
}

Progress::Progress(std::string title, Format format)
    : title_(std::move(title)), format_(std::move(format)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (bar_shown_) std::fputc('\n', stderr);
}

void Progress::update(double done, double total, const std::string& note) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double since = std::chrono::duration<double>(now - shown_).count();
  if (seconds < 2 || since < (terminal_ ? 0.2 : 10)) return;
  shown_ = now;
  const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0;
  const double left = done > 0 ? seconds * (total - done) / done : -1;
  const std::string line =
      concat(title_, ": ", format_(done), " of ", format_(total), ", ", format_(done / seconds),
             "/s, ", format_duration(left), " left", note.empty() ? "" : ", ", note);
  if (!terminal_) {
    log::info(line);
    return;
  }
  constexpr int kWidth = 24;
  std::string bar(static_cast<std::size_t>(std::lround(share * kWidth)), '=');
  bar.resize(kWidth, ' ');
  std::fprintf(stderr, "\r[%s] %s\033[K", bar.c_str(), line.c_str());
  std::fflush(stderr);
  bar_shown_ = true;
}

}  // namespace barge
