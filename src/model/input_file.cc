#include "model/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/errors.h"

namespace barge {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block here
  if (fd_ < 0) throw IoError(concat("cannot open ", path_.string(), ": ", std::strerror(errno)));
  struct stat status {};
  const bool known = ::fstat(fd_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string why = known ? "wanted a regular file" : std::strerror(errno);
    ::close(fd_);
    throw IoError(concat("cannot read ", path_.string(), ": ", why));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  modified_ns_ = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      modified_ns_(other.modified_ns_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw IoError(concat("cannot read ", to.size(), " bytes at offset ", offset, " of ",
                           path_.string(), ": ", std::strerror(errno)));
    if (got == 0)
      throw IoError(concat(path_.string(), " ends at offset ", offset, ", ", to.size(),
                           " bytes too early; fetch it again"));
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  const InputFile file(path);
  if (file.size() > most_bytes)
    throw FormatError(
        concat(path.string(), " has ", file.size(), " bytes, wanted at most ", most_bytes));
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void Fingerprint::add(std::span<const std::byte> bytes) {
  for (const std::byte b : bytes)
    hash_ = (hash_ ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
}

void Fingerprint::add(const std::string& text) {
  add(text.size());  // so that "ab", "c" and "a", "bc" differ
  add(std::as_bytes(std::span(text)));
}

void Fingerprint::add(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }

void Fingerprint::add(const InputFile& file, std::uint64_t head_bytes) {
  add(file.path().filename().string());
  add(file.size());
  add(static_cast<std::uint64_t>(file.modified_ns()));
  std::vector<std::byte> buffer(64 << 10);
  for (std::uint64_t at = 0, end = std::min(head_bytes, file.size()); at < end;) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - at));
    file.read(at, piece);
    add(piece);
    at += piece.size();
  }
}

std::string Fingerprint::hex() const {
  std::string text(16, '0');
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = "0123456789abcdef"[(hash_ >> (60 - 4 * i)) & 15u];
  return text;
}

}  // namespace barge
