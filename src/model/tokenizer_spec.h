#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace barge {

using TokenId = std::int32_t;

struct EncodeOptions {
  bool add_special = true;    // put the model's own first and last token around the text
  bool parse_special = true;  // read special tokens that are spelled out in the text
};

/// What a checkpoint says of its tokenizer, wherever it was written (tokenizer.json, GGUF
/// metadata). Written into the pack, so that a pack is a whole model.
struct TokenizerSpec {
  enum class TokenType : std::uint8_t { kNormal, kControl, kUserDefined, kUnused, kByte };

  std::vector<std::string> tokens;  // [vocab], as stored: byte-level alphabet for normal ones
  std::vector<TokenType> types;     // [vocab]; control tokens are "special"
  std::vector<std::string> merges;  // "left right", best first
  std::string pre_tokenizer;        // as GGUF names it: smollm, gpt-2, llama-bpe, qwen2, opt, ...
  TokenId bos = -1, pad = -1, unk = -1;  // -1: none
  std::vector<TokenId> eos;              // generation ends at any of them
  bool add_bos = false, add_eos = false;
  bool ignore_merges = false;  // a whole word that is a token needs no merges (llama 3)
  std::string chat_template;   // Jinja; empty: none
};

}  // namespace barge
