#pragma once

#include <memory>
#include <string>

#include "model/checkpoint.h"

namespace barge {

/// A model of the shape `config` with random weights, made as they are read: 4-bit matrices in
/// groups of 64 (mean 0, standard deviation about 0.02), norms of 1, small biases. The numbers of
/// a row depend on the tensor's name and the row only. Its tokenizer has a token a byte, filler
/// tokens and one that ends the text. Throws FormatError if the vocabulary is too small for that.
std::unique_ptr<Checkpoint> make_dummy_checkpoint(ModelConfig config);

/// That tokenizer. `vocab` is at least 257.
TokenizerSpec dummy_tokenizer_spec(int vocab);

}  // namespace barge
