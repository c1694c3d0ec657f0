#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace barge {

/// A file of answer lines that only grows, behind a job's record of how much of it counts. For one
/// thread.
class AnswerFile {
 public:
  /// Opens or creates `path`. Behind `recorded_bytes` may stand lines that a killed process wrote
  /// and didn't live to record: `adopt` is shown each (without its newline), and those before the
  /// first that it says false to stay. The rest, the last line perhaps in part, is cut off.
  /// Throws IoError; also if the file is shorter than what was recorded.
  AnswerFile(std::filesystem::path path, std::int64_t recorded_bytes,
             const std::function<bool(std::string_view)>& adopt);
  ~AnswerFile();
  AnswerFile(const AnswerFile&) = delete;
  AnswerFile& operator=(const AnswerFile&) = delete;

  /// Whole lines. Kept in memory until `sync`.
  void append(std::string_view lines) { pending_ += lines; }
  /// Writes what was appended and waits until the disk has it. Throws IoError (a full disk); what
  /// was written in part isn't recorded then, so the next one who opens the file cuts it off.
  void sync();
  std::int64_t bytes() const { return bytes_; }  // all but what `sync` would write

 private:
  std::filesystem::path path_;
  int fd_;
  std::int64_t bytes_;
  std::string pending_;  // whole lines; what was adopted may be there already
};

/// Makes the entries of `directory` durable: new files, renames. Throws IoError.
void sync_directory(const std::filesystem::path& directory);

}  // namespace barge
