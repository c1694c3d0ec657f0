#include "jobs/answer_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/errors.h"
#include "core/io_error.h"

namespace barge {
namespace {

// What one record may leave behind is far less: some hundred answers.
constexpr std::size_t kMaxTailBytes = std::size_t{256} << 20;
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

[[noreturn]] void fail(const char* attempted, const std::filesystem::path& path) {
  throw_io_error(concat("cannot ", attempted, ' ', path.string()), errno);
}

// Closes the file unless everything went well.
struct Opened {
  int fd;
  ~Opened() {
    if (fd >= 0) close(fd);
  }
};

int open_at(const std::filesystem::path& path, std::int64_t recorded_bytes) {
  Opened file{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
  struct stat info {};
  if (file.fd < 0 || fstat(file.fd, &info) != 0) fail("open", path);
  if (!S_ISREG(info.st_mode))
    throw IoError(concat(path.string(), " is not a regular file; answers need one to resume from"));
  if (info.st_size < recorded_bytes)
    throw IoError(concat(path.string(), " has ", info.st_size, " bytes, but answers of ",
                         recorded_bytes, " bytes were recorded: it was changed since; restore it, ",
                         "or remove it together with its state to start again"));
  return std::exchange(file.fd, -1);
}

// At most kMaxTailBytes of what stands behind `offset`.
std::string read_tail(int fd, std::int64_t offset, const std::filesystem::path& path) {
  std::string tail;
  while (tail.size() < kMaxTailBytes) {
    const std::size_t had = tail.size();
    tail.resize(had + kChunkBytes);
    const ssize_t got =
        pread(fd, tail.data() + had, kChunkBytes, offset + static_cast<std::int64_t>(had));
    if (got < 0 && errno != EINTR) fail("read the end of", path);
    tail.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) break;
  }
  return tail;
}

}  // namespace

AnswerFile::AnswerFile(std::filesystem::path path, std::int64_t recorded_bytes,
                       const std::function<bool(std::string_view)>& adopt)
    : path_(std::move(path)), fd_(open_at(path_, recorded_bytes)), bytes_(recorded_bytes) {
  Opened guard{fd_};
  const std::string text = read_tail(fd_, bytes_, path_);
  std::string_view tail = text;
  for (std::size_t end = 0; (end = tail.find('\n')) != std::string_view::npos;) {
    if (!adopt(tail.substr(0, end))) break;
    tail.remove_prefix(end + 1);
  }
  // Written again, so that `sync` means them too: after a failed fdatasync the kernel takes pages
  // for clean that the disk never got.
  pending_ = text.substr(0, text.size() - tail.size());
  const auto kept_bytes = bytes_ + static_cast<std::int64_t>(pending_.size());
  if (!tail.empty() && ftruncate(fd_, kept_bytes) != 0)
    fail("cut off the unfinished end of", path_);
  const auto directory = path_.parent_path();
  sync_directory(directory.empty() ? "." : directory);
  guard.fd = -1;
}

AnswerFile::~AnswerFile() { close(fd_); }

void AnswerFile::sync() {
  if (pending_.empty()) return;
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t written = pwrite(fd_, pending_.data() + done, pending_.size() - done,
                                   bytes_ + static_cast<std::int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw_io_error(
          concat("cannot write ", pending_.size() - done, " bytes of answers to ", path_.string()),
          written < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(written);
  }
  if (fdatasync(fd_) != 0) fail("make durable", path_);
  bytes_ += static_cast<std::int64_t>(pending_.size());
  pending_.clear();
}

void sync_directory(const std::filesystem::path& directory) {
  const Opened opened{open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // Some file systems can't sync a directory (EINVAL); they keep the order by themselves.
  if (opened.fd < 0 || (fsync(opened.fd) != 0 && errno != EINVAL))
    fail("make durable the directory", directory);
}

}  // namespace barge
