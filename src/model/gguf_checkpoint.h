#pragma once

#include <filesystem>
#include <memory>

#include "model/checkpoint.h"

namespace barge {

/// Opens a .gguf file of the Llama family (Llama, Mistral, SmolLM2, Qwen2).
/// Throws IoError or FormatError.
std::unique_ptr<Checkpoint> open_gguf_checkpoint(const std::filesystem::path& path);

/// The tokenizer of a .gguf file, which may have no tensors. Throws IoError or FormatError.
TokenizerSpec tokenizer_spec_from_gguf(const std::filesystem::path& path);

}  // namespace barge
