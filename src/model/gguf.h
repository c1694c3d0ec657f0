#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/input_file.h"

namespace barge {

/// An array in GGUF's metadata, left in the file until somebody asks for it: vocabularies are long.
struct GgufArray {
  std::uint32_t type = 0;  // of the elements, GGUF's number
  std::uint64_t count = 0;
  std::uint64_t offset = 0;  // of the first element in the file
};

/// Integers of all widths, floats of both, booleans, strings (up to 1 MiB), arrays.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;

struct GgufTensor {
  std::vector<std::uint64_t> dims;  // fastest first, as GGUF writes them: cols, rows
  std::uint32_t type = 0;           // ggml's number
  std::uint64_t offset = 0;         // in the file
};

/// The header of a GGUF file, version 2 or 3, little-endian. Every count, length, offset and
/// nesting depth is checked against the file when it is read. Immutable; thread-safe.
class Gguf {
 public:
  /// Throws IoError, and FormatError naming the file, the offset, what was wanted and got.
  explicit Gguf(std::filesystem::path path);

  const InputFile& file() const { return file_; }
  std::uint64_t header_bytes() const { return header_bytes_; }
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(const std::string& name) const;

  bool has(const std::string& key) const { return values_.contains(key); }
  /// Each throws FormatError if the key holds another type, or is missing where no `absent` says
  /// what that means.
  std::string text(const std::string& key, std::optional<std::string> absent = {}) const;
  int integer(const std::string& key, std::optional<int> absent = {}) const;
  float number(const std::string& key, std::optional<float> absent = {}) const;
  bool flag(const std::string& key, bool absent) const;
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<std::int64_t> integers(const std::string& key) const;
  std::uint64_t array_size(const std::string& key) const { return array(key).count; }

 private:
  class Cursor;
  void read_values(Cursor& cursor, std::uint64_t count);
  void read_tensors(Cursor& cursor, std::uint64_t count);
  const GgufArray& array(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& wanted) const;

  InputFile file_;
  std::uint64_t header_bytes_ = 0;
  std::map<std::string, GgufValue> values_;
  std::map<std::string, GgufTensor> tensors_;
};

}  // namespace barge
