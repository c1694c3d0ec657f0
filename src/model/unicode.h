#pragma once

#include <string>
#include <string_view>

namespace barge {

/// What the first character of a text is.
struct Utf8Char {
  enum class Status : unsigned char {
    kValid,
    kInvalid,    // `bytes` of it, the longest beginning of a character, are one error (one U+FFFD)
    kTruncated,  // the text ends inside a character that is right so far
  };
  Status status;
  char32_t code;  // only where valid
  int bytes;      // 1 to 4
};

/// Looks at the first character of `text`, which is not empty. Overlong forms, surrogates and codes
/// above U+10FFFF are invalid. Errors are cut as Unicode recommends and Rust and Python do.
Utf8Char first_char(std::string_view text);

/// The bytes of `text` up to its first error.
std::string_view valid_prefix(std::string_view text);

/// Appends `code`, a scalar value.
void append_utf8(std::string& out, char32_t code);

/// Unicode's White_Space, and Python's U+001C to U+001F.
bool is_space(char32_t code);

/// `text` without white space at its ends.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace barge
