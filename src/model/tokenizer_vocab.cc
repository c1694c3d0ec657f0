#include "model/tokenizer_vocab.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "core/errors.h"
#include "model/unicode.h"

namespace barge {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;  // one past the last character of the byte-level alphabet

// GPT-2's alphabet: bytes that print stand for themselves, the other 68 follow from U+0100 on.
std::array<std::int16_t, kAlphabetEnd> make_alphabet() {
  std::array<std::int16_t, kAlphabetEnd> byte_of;
  byte_of.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    byte_of[prints ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return byte_of;
}

}  // namespace

std::string decode_byte_level(std::string_view token) {
  static const auto byte_of = make_alphabet();
  std::string out;
  for (std::string_view rest = token; !rest.empty();) {
    const Utf8Char c = first_char(rest);
    if (c.status != Utf8Char::Status::kValid || c.code >= kAlphabetEnd || byte_of[c.code] < 0)
      return std::string(token);
    out += static_cast<char>(byte_of[c.code]);
    rest.remove_prefix(c.bytes);
  }
  return out;
}

Vocab::Vocab(const std::vector<std::string>& tokens, const std::vector<Type>& types)
    : types_(types) {
  if (tokens.empty()) throw FormatError("the tokenizer has no tokens");
  if (tokens.size() > std::numeric_limits<TokenId>::max() / 2)
    throw FormatError(concat("the tokenizer has ", tokens.size(), " tokens: too many"));
  if (types_.empty()) types_.assign(tokens.size(), Type::kNormal);
  if (types_.size() != tokens.size())
    throw FormatError(concat("the tokenizer has ", tokens.size(), " tokens, but types for ",
                             types_.size(), " of them"));
  std::size_t text_bytes = 0;  // an upper bound: decoding never lengthens
  for (const std::string& token : tokens) text_bytes += token.size();
  if (text_bytes > std::numeric_limits<std::uint32_t>::max())
    throw FormatError(concat("the tokenizer's tokens take ", text_bytes, " bytes: too many"));

  arena_.reserve(text_bytes);
  starts_.reserve(tokens.size() + 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    starts_.push_back(static_cast<std::uint32_t>(arena_.size()));
    arena_ += types_[i] == Type::kNormal ? decode_byte_level(tokens[i]) : tokens[i];
  }
  starts_.push_back(static_cast<std::uint32_t>(arena_.size()));
  arena_.shrink_to_fit();

  slots_.assign(std::bit_ceil(tokens.size() * 5 / 4 + 1), -1);
  const auto num_tokens = static_cast<TokenId>(tokens.size());
  for (TokenId id = 0; id < num_tokens; ++id)
    if (types_[id] == Type::kNormal) insert(id);
  for (TokenId id = 0; id < num_tokens; ++id)
    if (types_[id] == Type::kControl || types_[id] == Type::kUserDefined) insert(id);
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    byte_ids_[byte] = find({&text, 1});
  }
}

void Vocab::insert(TokenId id) {
  const std::string_view key = text(id);
  if (key.empty()) return;
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(key)&mask;
  for (; slots_[slot] >= 0; slot = (slot + 1) & mask)
    if (text(slots_[slot]) == key) return;
  slots_[slot] = id;
}

TokenId Vocab::find(std::string_view bytes) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(bytes)&mask;
  for (; slots_[slot] >= 0; slot = (slot + 1) & mask)
    if (text(slots_[slot]) == bytes) return slots_[slot];
  return -1;
}

std::size_t Vocab::bytes() const {
  return sizeof *this + arena_.capacity() + starts_.capacity() * sizeof starts_[0] +
         types_.capacity() * sizeof types_[0] + slots_.capacity() * sizeof slots_[0];
}

}  // namespace barge
