#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/errors.h"
#include "core/log.h"
#include "offload/disk_queue.h"

namespace barge {
namespace {

int try_open(const std::string& path, int flags) {
  int descriptor = -1;
  do descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// For file systems that don't know O_TMPFILE: a name that lives for a moment. -1 and errno.
int open_and_unlink(const std::string& directory, int flags) {
  std::string path = directory + "/barge-scratch-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return -1;
  // mkostemp takes no O_DIRECT in its flags everywhere, so the file is opened a second time.
  const int descriptor = try_open(path, flags);
  const int failure = errno;
  ::unlink(path.c_str());
  ::close(named);
  errno = failure;
  return descriptor;
}

int open_scratch(const std::string& directory, int flags) {
  const int descriptor = try_open(directory, O_TMPFILE | flags);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return descriptor;
  return open_and_unlink(directory, flags);
}

// Tries `opener` with O_DIRECT first. Returns descriptor (-1: errno) and whether it is direct.
template <typename Opener>
std::pair<int, bool> open_either(DiskFile::Access access, const std::string& path,
                                 const Opener& opener) {
  if (access == DiskFile::Access::kDirect) {
    const int descriptor = opener(O_DIRECT);
    if (descriptor >= 0 || errno != EINVAL) return {descriptor, true};
    log::info(concat("the file system of ", path,
                     " refuses O_DIRECT: reads and writes go through the page cache"));
  }
  return {opener(0), false};
}

}  // namespace

DiskFile DiskFile::open(const std::filesystem::path& path, Access access) {
  const auto [descriptor, direct] = open_either(
      access, path.string(), [&](int flags) { return try_open(path.string(), O_RDONLY | flags); });
  if (descriptor < 0)
    throw IoError(concat("cannot open ", path.string(), " for reading: ", std::strerror(errno)));
  // Read-ahead of the kernel would fetch what the queue asks for anyway, in its own order.
  if (!direct) posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
  return {descriptor, direct, path.string()};
}

DiskFile DiskFile::scratch(const std::filesystem::path& directory, Access access) {
  const auto [descriptor, direct] = open_either(access, directory.string(), [&](int flags) {
    return open_scratch(directory.string(), O_RDWR | flags);
  });
  if (descriptor < 0)
    throw IoError(concat("cannot make a scratch file in ", directory.string(), ": ",
                         std::strerror(errno), "; name another place with --disk-dir"));
  return {descriptor, direct, concat("scratch file in ", directory.string())};
}

DiskFile::DiskFile(int descriptor, bool direct, std::string path)
    : descriptor_(descriptor), direct_(direct), path_(std::move(path)) {}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(other.direct_),
      path_(std::move(other.path_)) {}

DiskFile& DiskFile::operator=(DiskFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(direct_, other.direct_);
  std::swap(path_, other.path_);
  return *this;
}

DiskFile::~DiskFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint64_t DiskFile::bytes() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0)
    throw IoError(concat("cannot ask for the size of ", path_, ": ", std::strerror(errno)));
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace barge
