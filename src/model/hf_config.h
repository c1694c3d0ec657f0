#pragma once

#include <string>

#include "model/config.h"

namespace barge {

/// Reads a Hugging Face config.json of llama, mistral, qwen2 or opt. `name` is the model's, for
/// people; `source` the file, for messages. Throws FormatError for what barge doesn't run.
ModelConfig config_from_hf(const std::string& text, const std::string& name,
                           const std::string& source);

}  // namespace barge
