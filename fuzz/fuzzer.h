#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace barge::fuzz {

/// A property that doesn't hold: libFuzzer keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A regular file in memory with a path, for readers of files.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == ssize_t(bytes.size()),
            "a file in memory can be made");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// A directory in memory, where there is one, that goes away with the process.
inline const std::filesystem::path& scratch_directory() {
  static const struct Directory {
    Directory() {
      std::string name = std::filesystem::exists("/dev/shm") ? "/dev/shm/" : "/tmp/";
      name += "barge-fuzz-XXXXXX";
      require(mkdtemp(name.data()) != nullptr, "a directory can be made");
      path = name;
    }
    ~Directory() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  } directory;
  return directory.path;
}

}  // namespace barge::fuzz
