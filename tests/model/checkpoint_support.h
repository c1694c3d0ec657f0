#pragma once

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/errors.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "tests/support/temp_directory.h"

namespace barge {

using test::TempDirectory;

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spill(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// Bytes of a little-endian file, piece by piece.
class Bytes {
 public:
  template <typename T>
  Bytes& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& raw(const std::string& text) {
    text_ += text;
    return *this;
  }
  Bytes& string(const std::string& text) { return put<std::uint64_t>(text.size()).raw(text); }
  Bytes& pad_to(std::size_t multiple) {
    while (text_.size() % multiple != 0) text_ += '\0';
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Reads all that a user of the checkpoint could: every tensor by rows and as panels.
inline void read_everything(const std::string& model) {
  const auto checkpoint = open_checkpoint(model);
  (void)checkpoint->tokenizer();
  for (const Part& part : make_family(checkpoint->config())->parts())
    for (const TensorSpec& tensor : part.tensors) {
      const WeightFormat format = checkpoint->stored_format(tensor);
      const std::int64_t rows = std::min<std::int64_t>(tensor.rows, 40);
      std::vector<float> out(static_cast<std::size_t>(rows * tensor.cols));
      checkpoint->read_rows(tensor, 0, rows, out);
      checkpoint->read_rows(tensor, tensor.rows - rows, rows, out);
      const PanelLayout layout = panel_layout(format, rows, tensor.cols);
      std::vector<std::byte> panel(layout.bytes);
      checkpoint->read_panel(tensor, tensor.rows - rows, layout, panel);
    }
}

/// Whether reading everything succeeds; any failure must be one that a user can understand.
inline bool reads_whole(const std::string& model) {
  try {
    read_everything(model);
    return true;
  } catch (const FormatError& e) {
    EXPECT_STRNE(e.what(), "");
  } catch (const IoError& e) {
    EXPECT_STRNE(e.what(), "");
  }
  return false;
}

}  // namespace barge
