#pragma once

#include <filesystem>

#include "model/tokenizer_spec.h"

namespace barge {

/// Reads the tokenizer of a directory in Hugging Face's layout: tokenizer.json, or GPT-2's older
/// vocab.json and merges.txt; beside them, where they are, tokenizer_config.json,
/// special_tokens_map.json, generation_config.json and config.json (end tokens) and
/// chat_template.jinja. Files are read in pieces: tokens and merges never become a JSON tree.
/// Throws IoError for a file that can't be read, and FormatError, with the file and the field, for
/// what isn't byte-level BPE with a pre-tokenizer that barge knows.
TokenizerSpec tokenizer_spec_from_dir(const std::filesystem::path& dir);

}  // namespace barge
