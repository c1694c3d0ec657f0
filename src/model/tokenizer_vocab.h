#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer_spec.h"

namespace barge {

/// The tokens of a vocabulary as bytes, one arena for all, and the way back from bytes to the
/// token. About 14 bytes a token beside the text. Immutable after construction and thread-safe.
class Vocab {
 public:
  using Type = TokenizerSpec::TokenType;

  /// Normal tokens are decoded from the byte-level alphabet ("Ġ" is a blank); one with a character
  /// outside of it, and every other kind, stands for itself. Throws FormatError where the lists
  /// don't fit together.
  Vocab(const std::vector<std::string>& tokens, const std::vector<Type>& types);

  [[nodiscard]] std::size_t size() const { return starts_.size() - 1; }
  [[nodiscard]] bool contains(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < size();
  }

  /// The bytes that `id`, which must be in the vocabulary, stands for.
  [[nodiscard]] std::string_view text(TokenId id) const {
    return std::string_view(arena_).substr(starts_[id], starts_[id + 1] - starts_[id]);
  }
  [[nodiscard]] Type type(TokenId id) const { return types_[id]; }

  /// The token that stands for `bytes`, -1 if none does. Of several a normal one, then the first.
  [[nodiscard]] TokenId find(std::string_view bytes) const;

  /// The same for one byte, from a table.
  [[nodiscard]] TokenId find_byte(unsigned char byte) const { return byte_ids_[byte]; }

  [[nodiscard]] std::size_t bytes() const;

 private:
  void insert(TokenId id);

  std::string arena_;
  std::vector<std::uint32_t> starts_;  // [size + 1], into arena_
  std::vector<Type> types_;            // [size]
  std::vector<TokenId> slots_;         // open addressing, linear probing, at most 4/5 full
  std::array<TokenId, 256> byte_ids_{};
};

/// `token` of a byte-level vocabulary as the bytes that it stands for.
std::string decode_byte_level(std::string_view token);

}  // namespace barge
