#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "jobs/hash.h"

namespace barge {

/// A line that is longer is an error line: what it would ask for fits no context.
inline constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

/// Reads a JSONL file line by line, in memory for one line and one chunk: one leading byte-order
/// mark is dropped, lines may end in CRLF, lines of white space are skipped but counted, the last
/// one may lack its newline. Not thread-safe.
class LineReader {
 public:
  struct Line {
    std::string_view text;   // without its end; valid until the next call; empty if too long
    std::size_t number = 0;  // 1-based
    bool too_long = false;
  };

  /// Throws IoError if `path` can't be opened or isn't a regular file.
  explicit LineReader(std::filesystem::path path, std::size_t max_line_bytes = kMaxLineBytes);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// False at the end. Throws IoError.
  bool next(Line& line);

  /// Of all bytes returned by the file so far; of the whole file after `next` said false.
  Hash128 content_hash() const { return hasher_.value(); }
  std::size_t last_line_number() const { return number_; }

 private:
  bool fill();  // false at the end of the file
  bool take(Line& line);

  std::filesystem::path path_;
  std::size_t max_line_bytes_;
  int fd_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of what hasn't been returned yet, in buffer_
  std::size_t scanned_ = 0;  // no newline between begin_ and this
  std::size_t number_ = 0;
  bool skipping_ = false;  // inside a line that is too long
  bool at_start_ = true, at_end_ = false;
  std::uint64_t offset_ = 0;
  Hasher hasher_;
};

}  // namespace barge
