#include "model/tokenizer.h"

#include <algorithm>
#include <limits>

#include "core/errors.h"
#include "model/detokenizer.h"
#include "model/unicode_nfc.h"

namespace barge {
namespace {

using Type = TokenizerSpec::TokenType;

void check_id(const Vocab& vocab, TokenId id, const char* what) {
  if (id != -1 && !vocab.contains(id))
    throw FormatError(concat("the tokenizer's ", what, " token is ", id,
                             ", but its vocabulary has ", vocab.size(), " tokens"));
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec)
    : vocab_(spec.tokens, spec.types),
      bpe_(vocab_, spec.merges),
      pre_tokenizer_(spec.pre_tokenizer),
      bos_(spec.bos),
      pad_(spec.pad),
      unk_(spec.unk),
      eos_(std::move(spec.eos)),
      add_bos_(spec.add_bos && spec.bos >= 0),
      add_eos_(spec.add_eos && !eos_.empty()),
      ignore_merges_(spec.ignore_merges),
      chat_template_(std::move(spec.chat_template)) {
  check_id(vocab_, bos_, "first (bos)");
  check_id(vocab_, pad_, "padding");
  check_id(vocab_, unk_, "unknown");
  for (const TokenId id : eos_) check_id(vocab_, id, "end (eos)");
  const auto num_tokens = static_cast<TokenId>(vocab_.size());
  for (TokenId id = 0; id < num_tokens; ++id) {
    const bool is_added =
        vocab_.type(id) == Type::kControl || vocab_.type(id) == Type::kUserDefined;
    if (!is_added || vocab_.text(id).empty()) continue;
    added_.push_back(id);
    begins_added_[static_cast<unsigned char>(vocab_.text(id)[0])] = true;
  }
  std::sort(added_.begin(), added_.end(),
            [&](TokenId a, TokenId b) { return vocab_.text(a) < vocab_.text(b); });
}

// Narrows the sorted list by one byte at a time, as one walks down a tree of prefixes.
Tokenizer::AddedMatch Tokenizer::match_added(std::string_view text, bool parse_special) const {
  AddedMatch best;
  auto first = added_.begin(), last = added_.end();
  for (std::size_t depth = 0; depth < text.size() && first != last; ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    // Within the range all agree on the first `depth` bytes, and those with no more come first.
    const auto byte_of = [&](TokenId id) {
      const std::string_view token = vocab_.text(id);
      return token.size() == depth ? -1 : int{static_cast<unsigned char>(token[depth])};
    };
    first = std::lower_bound(first, last, byte, [&](TokenId id, int b) { return byte_of(id) < b; });
    last = std::upper_bound(first, last, byte, [&](int b, TokenId id) { return b < byte_of(id); });
    if (first == last || vocab_.text(*first).size() != depth + 1) continue;
    if (parse_special || vocab_.type(*first) == Type::kUserDefined) best = {*first, depth + 1};
  }
  return best;
}

void Tokenizer::encode_plain(std::string_view text, Bpe::Scratch& scratch,
                             std::vector<TokenId>& out) const {
  std::string normal;
  if (pre_tokenizer_.wants_nfc() && !is_surely_nfc(text)) text = normal = to_nfc(text);
  for (const std::string_view word : pre_tokenizer_.split(text)) {
    const TokenId whole = ignore_merges_ ? vocab_.find(word) : -1;
    if (whole >= 0)
      out.push_back(whole);
    else
      bpe_.encode(vocab_, word, unk_, scratch, out);
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > std::numeric_limits<std::int32_t>::max())
    throw RequestError(concat("cannot tokenize a text of ", text.size(), " bytes: the limit is ",
                              std::numeric_limits<std::int32_t>::max()));
  std::vector<TokenId> out;
  Bpe::Scratch scratch;
  if (options.add_special && add_bos_) out.push_back(bos_);
  std::size_t plain = 0;  // where the text begins that isn't encoded yet
  for (std::size_t at = 0; at < text.size();) {
    AddedMatch match;
    if (begins_added_[static_cast<unsigned char>(text[at])])
      match = match_added(text.substr(at), options.parse_special);
    if (match.id < 0) {
      ++at;
      continue;
    }
    encode_plain(text.substr(plain, at - plain), scratch, out);
    out.push_back(match.id);
    plain = at += match.bytes;
  }
  encode_plain(text.substr(plain), scratch, out);
  if (options.add_special && add_eos_) out.push_back(eos_.front());
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string out;
  for (const TokenId id : ids) out += detokenizer.push(id);
  return out + detokenizer.flush();
}

std::string_view Tokenizer::piece(TokenId id) const {
  if (!contains(id))
    throw RequestError(
        concat("token ", id, " is not in the vocabulary, which has ", vocab_size(), " tokens"));
  return vocab_.text(id);
}

std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  const AddedMatch match = match_added(text, true);
  if (match.id >= 0 && match.bytes == text.size()) return match.id;
  const TokenId id = vocab_.find(text);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_eos(TokenId id) const {
  return std::find(eos_.begin(), eos_.end(), id) != eos_.end();
}

std::size_t Tokenizer::bytes() const {
  return sizeof *this + vocab_.bytes() + bpe_.bytes() + pre_tokenizer_.bytes() +
         added_.capacity() * sizeof added_[0] + eos_.capacity() * sizeof eos_[0] +
         chat_template_.capacity();
}

}  // namespace barge
