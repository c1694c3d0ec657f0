#pragma once

#include <string>

#include "model/config.h"
#include "model/tokenizer_spec.h"

namespace barge {

/// What a pack says of its model, beside the tensors: `Pack::model()`.
struct ModelDescription {
  ModelConfig config;
  TokenizerSpec tokenizer;
};

std::string description_to_json(const ModelDescription& description);
/// Throws FormatError, naming `source`.
ModelDescription description_from_json(const std::string& text, const std::string& source);

}  // namespace barge
