#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "model/tokenizer_spec.h"

namespace barge::tokenizer_files {

/// Fills what tokenizer.json says: tokens, types, merges, pre-tokenizer, first and last token that
/// its post-processor adds. Errors as of tokenizer_spec_from_dir.
void read_tokenizer_json(const std::filesystem::path& file, TokenizerSpec& spec);

/// Fills tokens and merges from GPT-2's vocab.json and merges.txt.
void read_vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges,
                           TokenizerSpec& spec);

/// The GGUF name for what tokenizer.json has as "pre_tokenizer" and "normalizer". Throws
/// FormatError with what was found where there is none.
std::string map_pre_tokenizer(const nlohmann::json& tokenizer, const std::string& source);

/// Makes `content` the added token `id`. Throws FormatError where `id` is out of bounds or another.
void set_added_token(TokenizerSpec& spec, std::int64_t id, const std::string& content, bool special,
                     const std::string& source);

/// The id of `token`, -1 if there is none. Reads the whole list: for a handful of tokens.
TokenId id_of(const TokenizerSpec& spec, const std::string& token);

}  // namespace barge::tokenizer_files
