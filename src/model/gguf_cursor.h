#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "core/errors.h"
#include "model/gguf.h"

namespace barge {

/// GGUF's numbers for the types of metadata.
enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kCount
};

/// Reads a header from front to back, in pieces, and never past the end of the file.
class Gguf::Cursor {
 public:
  Cursor(const InputFile& file, std::uint64_t offset) : file_(file), at_(offset) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return file_.size() - at_; }

  template <typename T>
  T read(const char* what) {
    T value;
    read_bytes(&value, sizeof value, what);
    return value;
  }
  /// A length and that many bytes, at most `most`.
  std::string read_string(const char* what, std::uint64_t most);
  /// A number of things that take at least `bytes_each` in what is left of the file.
  std::uint64_t read_count(const char* what, std::uint64_t bytes_each);
  GgufType read_type(const char* what);
  /// One value of metadata; arrays are passed over, after their elements were checked.
  GgufValue read_value(GgufType type, const std::string& key);
  void skip(std::uint64_t bytes, const char* what);

  [[noreturn]] void refuse(const std::string& message) const;

 private:
  void read_bytes(void* to, std::size_t bytes, const char* what);
  void skip_string(const char* what);
  GgufArray read_array(const std::string& key, int depth);

  const InputFile& file_;
  std::uint64_t at_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_at_ = 0;  // where in the file the buffer's first byte is
};

}  // namespace barge
