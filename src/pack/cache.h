#pragma once

#include <filesystem>
#include <string>

#include "pack/convert.h"

namespace barge {

/// ${BARGE_CACHE_DIR:-${XDG_CACHE_HOME:-~/.cache}/barge}; not made.
std::filesystem::path default_cache_directory();

/// The pack for MODEL: MODEL itself if it is one; else the one that was made of it before with the
/// same options, found in `packs` by the source's fingerprint; else it is made there. Processes
/// (and threads) that want the same pack wait for the one that makes it. Blocks. Throws as
/// open_checkpoint and convert, and ConfigError where `options` ask a pack for other bits than it
/// has.
std::filesystem::path find_or_convert(const std::string& model, const ConvertOptions& options,
                                      const std::filesystem::path& packs,
                                      const PackProgress& progress = {});

}  // namespace barge
