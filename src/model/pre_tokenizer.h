#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace barge {

/// Cuts text into the words inside which byte pairs are merged, by the regular expression that the
/// model was trained with. Immutable and thread-safe.
class PreTokenizer {
 public:
  /// `name` is GGUF's: gpt-2 (also opt), smollm, llama-bpe, qwen2 and their aliases.
  /// Throws FormatError with the names that there are.
  explicit PreTokenizer(std::string_view name);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  /// The words of `text`, in order and without gaps: together they are the text again. Bytes that
  /// aren't UTF-8 become words of their own. Linear in the text. The words point into `text`.
  /// Throws RequestError where the expression gives up.
  [[nodiscard]] std::vector<std::string_view> split(std::string_view text) const;

  /// Whether the text must be brought to Unicode's normal form C first (qwen2).
  [[nodiscard]] bool wants_nfc() const;

  /// Memory that it holds, compiled expression included.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Regex;
  std::vector<Regex> stages_;  // each splits the words of the one before
  bool nfc_ = false;
};

/// The name of the pre-tokenizer that splits by `pattern` as tokenizer.json writes it; empty: none.
std::string_view pre_tokenizer_by_pattern(std::string_view pattern);

}  // namespace barge
