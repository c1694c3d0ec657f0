#include "model/jinja/text_case.h"

#include <clocale>
#include <cwctype>
#include <utility>

#include "model/unicode.h"

namespace barge::jinja {
namespace {

locale_t unicode_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

char32_t upper(char32_t c) {
  const locale_t locale = unicode_locale();
  if (locale == nullptr) return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
  return static_cast<char32_t>(towupper_l(static_cast<wint_t>(c), locale));
}

char32_t lower(char32_t c) {
  const locale_t locale = unicode_locale();
  if (locale == nullptr) return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  return static_cast<char32_t>(towlower_l(static_cast<wint_t>(c), locale));
}

bool is_letter(char32_t c) { return upper(c) != c || lower(c) != c; }

// `map` takes a character and whether the one before it is a letter.
template <typename Map>
std::string map_text(std::string_view text, Map map) {
  std::string out;
  bool after_letter = false;
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (c.status == Utf8Char::Status::kValid) {
      append_utf8(out, map(c.code, after_letter));
      after_letter = is_letter(c.code);
    } else {
      out += text.substr(0, c.bytes);
      after_letter = false;
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace

std::string to_upper(std::string_view text) {
  return map_text(text, [](char32_t c, bool) { return upper(c); });
}

std::string to_lower(std::string_view text) {
  return map_text(text, [](char32_t c, bool) { return lower(c); });
}

std::string to_capitalized(std::string_view text) {
  bool first = true;
  return map_text(
      text, [&](char32_t c, bool) { return std::exchange(first, false) ? upper(c) : lower(c); });
}

std::string to_title(std::string_view text) {
  return map_text(text, [](char32_t c, bool in_word) { return in_word ? lower(c) : upper(c); });
}

}  // namespace barge::jinja
