#include "jobs/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/errors.h"

namespace barge {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

}  // namespace

LineReader::LineReader(std::filesystem::path path, std::size_t max_line_bytes)
    : path_(std::move(path)),
      max_line_bytes_(max_line_bytes),
      fd_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) throw IoError(concat("cannot open ", path_.string(), ": ", std::strerror(errno)));
  struct stat info {};
  if (fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) return;
  close(fd_);
  throw IoError(concat(path_.string(), " is not a regular file; jobs are read more than once, so ",
                       "save the lines in a file first"));
}

LineReader::~LineReader() { close(fd_); }

bool LineReader::fill() {
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  const std::size_t kept = buffer_.size();
  buffer_.resize(kept + kChunkBytes);
  ssize_t got = 0;
  do {
    got = read(fd_, buffer_.data() + kept, kChunkBytes);
  } while (got < 0 && errno == EINTR);
  if (got < 0)
    throw IoError(
        concat("cannot read ", path_.string(), " at offset ", offset_, ": ", std::strerror(errno)));
  const auto bytes = static_cast<std::size_t>(got);
  buffer_.resize(kept + bytes);
  hasher_.update(std::string_view(buffer_).substr(kept));
  offset_ += bytes;
  return bytes > 0;
}

bool LineReader::next(Line& line) {
  while (take(line))
    if (line.too_long || !is_blank(line.text)) return true;
  return false;
}

// The next line, blank or not.
bool LineReader::take(Line& line) {
  for (;;) {
    if (at_start_ && (buffer_.size() >= kByteOrderMark.size() || at_end_)) {
      at_start_ = false;
      if (buffer_.starts_with(kByteOrderMark)) begin_ = scanned_ = kByteOrderMark.size();
    }
    const std::size_t end = at_start_ ? std::string::npos : buffer_.find('\n', scanned_);
    if (end != std::string::npos || (at_end_ && (begin_ < buffer_.size() || skipping_))) {
      const std::size_t stop = std::min(end, buffer_.size());
      std::string_view text = std::string_view(buffer_).substr(begin_, stop - begin_);
      begin_ = scanned_ = std::min(stop + 1, buffer_.size());
      if (text.ends_with('\r')) text.remove_suffix(1);
      const bool too_long = std::exchange(skipping_, false) || text.size() > max_line_bytes_;
      line = {too_long ? std::string_view() : text, ++number_, too_long};
      return true;
    }
    if (at_end_) return false;
    if (buffer_.size() - begin_ > max_line_bytes_ + 2) {  // drop what there is, go on to its end
      skipping_ = true;
      begin_ = buffer_.size();
    }
    if (!at_start_) scanned_ = buffer_.size();
    at_end_ = !fill();
  }
}

}  // namespace barge
