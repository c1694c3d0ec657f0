#pragma once

#include <filesystem>
#include <memory>

#include "model/checkpoint.h"

namespace barge {

/// Opens a directory in Hugging Face's layout: config.json, and model.safetensors or
/// model.safetensors.index.json with the shards that it names. Throws IoError or FormatError.
std::unique_ptr<Checkpoint> open_hf_checkpoint(const std::filesystem::path& directory);

}  // namespace barge
