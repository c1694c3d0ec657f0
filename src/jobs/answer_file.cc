#include "jobs/answer_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/errors.h"

namespace barge {
namespace {

[[noreturn]] void fail(const char* attempted, const std::filesystem::path& path) {
  throw IoError(concat("cannot ", attempted, ' ', path.string(), ": ", std::strerror(errno)));
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
  if (info.st_size > recorded_bytes && ftruncate(file.fd, recorded_bytes) != 0)
    fail("cut off the unrecorded end of", path);
  return std::exchange(file.fd, -1);
}

}  // namespace

AnswerFile::AnswerFile(std::filesystem::path path, std::int64_t recorded_bytes)
    : path_(std::move(path)), fd_(open_at(path_, recorded_bytes)), bytes_(recorded_bytes) {
  const auto directory = path_.parent_path();
  sync_directory(directory.empty() ? "." : directory);
}

AnswerFile::~AnswerFile() { close(fd_); }

void AnswerFile::sync() {
  if (pending_.empty()) return;
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t written = pwrite(fd_, pending_.data() + done, pending_.size() - done,
                                   bytes_ + static_cast<std::int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      throw IoError(concat("cannot write ", pending_.size() - done, " bytes of answers to ",
                           path_.string(), ": ", std::strerror(error),
                           error == ENOSPC ? "; free some disk space, then start again" : ""));
    }
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
