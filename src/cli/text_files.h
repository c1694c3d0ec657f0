#pragma once

#include <filesystem>
#include <string>

namespace barge {

/// The whole file; "-" is standard input. Throws IoError.
std::string read_text(const std::filesystem::path& path);

}  // namespace barge
