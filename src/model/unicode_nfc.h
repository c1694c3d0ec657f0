#pragma once

#include <string>
#include <string_view>

namespace barge {

/// True where a glance at the bytes shows that `text` is in normal form C already: nothing from
/// U+0300 on. False says nothing.
bool is_surely_nfc(std::string_view text);

/// `text` in Unicode's normal form C: canonically decomposed, ordered and composed again. Bytes
/// that aren't UTF-8 stay where they are.
std::string to_nfc(std::string_view text);

}  // namespace barge
