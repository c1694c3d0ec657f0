#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/input_file.h"

namespace barge {

struct SafeTensor {
  std::string dtype;  // as the file names it: "BF16"
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0, bytes = 0;  // in the file
};

/// The header of a safetensors file. Every offset, size and shape is checked against the file when
/// it is read. Immutable; thread-safe.
class SafeTensors {
 public:
  /// Throws IoError, and FormatError naming the file, the tensor, what was wanted and got.
  explicit SafeTensors(std::filesystem::path path);

  const InputFile& file() const { return file_; }
  std::uint64_t header_bytes() const { return header_bytes_; }
  const std::map<std::string, SafeTensor>& tensors() const { return tensors_; }

 private:
  InputFile file_;
  std::uint64_t header_bytes_ = 0;
  std::map<std::string, SafeTensor> tensors_;
};

}  // namespace barge
