#pragma once

#include <cstddef>
#include <filesystem>

namespace barge {

/// Bytes that this user may still write to the file system of `path`, which need not exist but
/// whose directory must; 0 if the system won't say.
std::size_t free_space(const std::filesystem::path& path);

/// The same for an open file.
std::size_t free_space(int descriptor);

}  // namespace barge
