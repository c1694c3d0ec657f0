#pragma once

#include <filesystem>

#include "pack/convert.h"

namespace barge {

/// Reads every panel of a pack and checks its checksum. Memory: one panel. Blocks. Throws
/// FormatError, naming tensor, panel and file, for the first that is wrong, and IoError.
void verify_pack(const std::filesystem::path& directory, const PackProgress& progress = {});

}  // namespace barge
