#pragma once

#include <string>
#include <string_view>

namespace barge::jinja {

// Letters of all scripts, one for one, as the C library's C.UTF-8 locale maps them ("ß" stays).

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// The first letter large, the others small.
std::string to_capitalized(std::string_view text);
/// The same for each word; whatever isn't a letter ends a word.
std::string to_title(std::string_view text);

}  // namespace barge::jinja
