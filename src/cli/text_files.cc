#include "cli/text_files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "core/errors.h"

namespace barge {

std::string read_text(const std::filesystem::path& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(concat("cannot read ", path.string(), ": ", std::strerror(errno)));
  return text;
}

}  // namespace barge
