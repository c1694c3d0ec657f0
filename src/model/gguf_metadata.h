#pragma once

#include "model/config.h"
#include "model/gguf.h"
#include "model/tokenizer_spec.h"

namespace barge {

/// What GGUF's metadata says of the model. Throws FormatError for an architecture or a feature that
/// barge doesn't run.
ModelConfig config_from_gguf(const Gguf& gguf);

/// ... and of its tokenizer.
TokenizerSpec tokenizer_spec_from_gguf(const Gguf& gguf);

}  // namespace barge
