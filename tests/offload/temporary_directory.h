#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "core/errors.h"

namespace barge {

/// A fresh directory that goes away with all that is in it.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(
      const std::filesystem::path& where = std::filesystem::temp_directory_path()) {
    std::string pattern = (where / "barge-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw IoError(concat("cannot make ", pattern));
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace barge
