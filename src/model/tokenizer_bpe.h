#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer_vocab.h"

namespace barge {

/// Byte-pair encoding: the ranked merges of a vocabulary and the merging itself.
/// Immutable after construction and thread-safe.
class Bpe {
 public:
  /// `merges` are "left right" in the byte-level alphabet, best first. Throws FormatError, with the
  /// merge, where one of its parts or their sum isn't in `vocab`.
  Bpe(const Vocab& vocab, const std::vector<std::string>& merges);

  /// Room that `encode` works in; one for each thread, kept from word to word.
  class Scratch {
   private:
    friend class Bpe;
    struct Symbol {
      TokenId id;  // -1: merged into the one before it
      std::int32_t prev, next;
    };
    struct Candidate {
      std::uint32_t rank;
      std::int32_t at;  // the left symbol
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  /// Appends the tokens of `word` (under 2 GiB). The best merge goes first, the leftmost of equals.
  /// Time n log n in the bytes of the word. A byte that isn't in the vocabulary becomes `unk`, or
  /// nothing where that is -1.
  void encode(const Vocab& vocab, std::string_view word, TokenId unk, Scratch& scratch,
              std::vector<TokenId>& out) const;

  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Merge {
    TokenId left, right, result;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  [[nodiscard]] std::uint32_t rank(TokenId left, TokenId right) const;
  [[nodiscard]] std::size_t slot(TokenId left, TokenId right) const;
  void push_candidate(Scratch& scratch, std::int32_t at) const;

  std::vector<Merge> merges_;         // by rank
  std::vector<std::uint32_t> slots_;  // ranks; open addressing, linear probing, at most 4/5 full
};

}  // namespace barge
