#include "server/target.h"

#include <algorithm>
#include <charconv>

namespace barge {
namespace {

std::string decoded(std::string_view text, bool plus_is_blank) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += plus_is_blank && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

// Calls `take` with each piece between separators.
template <typename Take>
void split(std::string_view text, char separator, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

Target::Target(std::string_view text) {
  const std::size_t question = std::min(text.find('?'), text.size());
  path_ = text.substr(0, question);
  split(path_, '/', [&](std::string_view piece) {
    if (!piece.empty() || !segments_.empty()) segments_.push_back(decoded(piece, false));
  });
  split(text.substr(std::min(question + 1, text.size())), '&', [&](std::string_view piece) {
    const std::size_t equals = std::min(piece.find('='), piece.size());
    query_[decoded(piece.substr(0, equals), true)] =
        decoded(piece.substr(std::min(equals + 1, piece.size())), true);
  });
}

std::optional<std::vector<std::string>> Target::match(
    const std::vector<std::string>& pattern) const {
  if (pattern.size() != segments_.size()) return std::nullopt;
  std::vector<std::string> captures;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == "*")
      captures.push_back(segments_[i]);
    else if (pattern[i] != segments_[i])
      return std::nullopt;
  }
  return captures;
}

}  // namespace barge
