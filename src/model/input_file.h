#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace barge {

/// A regular file open for reading at any offset. Thread-safe. Move-only.
class InputFile {
 public:
  /// Throws IoError if it can't be opened or isn't a regular file.
  explicit InputFile(std::filesystem::path path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  std::int64_t modified_ns() const { return modified_ns_; }

  /// Fills `to` with the bytes at `offset`. Throws IoError, naming file, offset and bytes, when
  /// the system refuses or the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::int64_t modified_ns_ = 0;
};

/// All of a small file. Throws IoError, and FormatError if it is larger than `most_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t most_bytes);

/// A name for content, built piece by piece: FNV-1a. It tells apart what differs by accident and
/// doesn't resist forgery.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes);
  void add(const std::string& text);
  void add(std::uint64_t number);
  /// Name, size and time of last change, and the content of its first `head_bytes`.
  void add(const InputFile& file, std::uint64_t head_bytes);
  std::string hex() const;

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace barge
