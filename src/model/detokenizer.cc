#include "model/detokenizer.h"

#include "model/unicode.h"

namespace barge {

std::string Detokenizer::push(TokenId id) {
  if (!tokenizer_->contains(id)) return {};
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  pending_ += tokenizer_->piece(id);
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const std::string_view valid = valid_prefix(rest);
    out += valid;
    rest.remove_prefix(valid.size());
    if (rest.empty()) break;
    const Utf8Char c = first_char(rest);
    if (c.status == Utf8Char::Status::kTruncated) break;
    out += kReplacementChar;
    rest.remove_prefix(c.bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return out;
}

std::string Detokenizer::flush() {
  const bool begun = !pending_.empty();
  pending_.clear();
  return begun ? std::string(kReplacementChar) : std::string();
}

}  // namespace barge
