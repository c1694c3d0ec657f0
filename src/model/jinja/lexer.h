#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace barge::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    kText,       // between the tags
    kOutput,     // {{
    kOutputEnd,  // }}
    kBlock,      // {%
    kBlockEnd,   // %}
    kName,
    kString,  // escapes resolved
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string_view text;  // into the source, or into `Tokens::strings`
  int line;
};

struct Tokens {
  std::vector<Token> list;          // ends with a kEnd
  std::deque<std::string> strings;  // texts that don't stand in the source as they are
};

/// Cuts a template into tokens, with the white space rules of transformers: trim_blocks,
/// lstrip_blocks, no trailing newline kept, and the signs of {%- -%} {%+ +%}. `source` must outlive
/// the tokens. Throws FormatError with the line.
Tokens tokenize(std::string_view source);

}  // namespace barge::jinja
