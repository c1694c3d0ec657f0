#pragma once

#include <string>

#include "model/tokenizer.h"

namespace barge {

/// Turns tokens into text as they come, in whole characters only: bytes of a character that isn't
/// complete yet are held back, bytes that can't become one are U+FFFD. All that was returned,
/// joined, equals `Tokenizer::decode` of all tokens. For one sequence and one thread.
class Detokenizer {
 public:
  /// `tokenizer` must outlive it. `skip_special` leaves special tokens out of the text.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  /// The text that `id` completes: valid UTF-8, often empty. An id that isn't in the vocabulary
  /// (rows that pad the output layer) stands for nothing.
  [[nodiscard]] std::string push(TokenId id);

  /// At the end of the sequence: U+FFFD where a character was begun and not ended, else nothing.
  [[nodiscard]] std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // at most three bytes: the beginning of a character
};

}  // namespace barge
