#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/pre_tokenizer.h"
#include "model/tokenizer_bpe.h"
#include "model/tokenizer_spec.h"
#include "model/tokenizer_vocab.h"

namespace barge {

/// Text to token ids and back: byte-level BPE, with the same ids as Hugging Face's `tokenizers`.
/// Immutable after construction and thread-safe.
class Tokenizer {
 public:
  /// Takes the spec apart and frees it; what is kept is compact (see `bytes`).
  /// Throws FormatError where the spec contradicts itself or asks for an unknown pre-tokenizer.
  explicit Tokenizer(TokenizerSpec spec);

  /// The ids of `text`. Added tokens (user-defined ones always, special ones where asked) are
  /// found first, the longest where several begin at one place. Time n log n in the bytes.
  /// Any bytes are welcome; those that aren't UTF-8 are encoded one by one.
  /// Throws RequestError for texts of 2 GiB and more.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text,
                                            EncodeOptions options = {}) const;

  /// The text of `ids` in valid UTF-8: bytes that aren't become U+FFFD. Ids that aren't in the
  /// vocabulary stand for nothing.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  /// The bytes of one token, perhaps a part of a character. Throws RequestError for an id that
  /// isn't in the vocabulary.
  [[nodiscard]] std::string_view piece(TokenId id) const;

  /// The special or user-defined token whose text is just `text`, or a normal one; none: nullopt.
  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;

  [[nodiscard]] bool contains(TokenId id) const { return vocab_.contains(id); }
  [[nodiscard]] bool is_special(TokenId id) const {
    return contains(id) && vocab_.type(id) == TokenizerSpec::TokenType::kControl;
  }
  [[nodiscard]] std::size_t vocab_size() const { return vocab_.size(); }

  [[nodiscard]] TokenId bos() const { return bos_; }  // -1: none; likewise below
  [[nodiscard]] TokenId pad() const { return pad_; }
  /// Generation ends at any of these; the first is the tokenizer's own.
  [[nodiscard]] std::span<const TokenId> eos() const { return eos_; }
  [[nodiscard]] bool is_eos(TokenId id) const;
  [[nodiscard]] bool adds_bos() const { return add_bos_; }

  /// Texts of the first and last token for a chat template; empty where there is none.
  [[nodiscard]] std::string_view bos_text() const { return bos_ < 0 ? "" : vocab_.text(bos_); }
  [[nodiscard]] std::string_view eos_text() const {
    return eos_.empty() ? "" : vocab_.text(eos_.front());
  }
  /// Jinja source of the checkpoint's chat template; empty: none.
  [[nodiscard]] const std::string& chat_template() const { return chat_template_; }

  /// Memory that it holds, for the budget: about 36 bytes a token and merge beside the text.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct AddedMatch {
    TokenId id = -1;
    std::size_t bytes = 0;
  };
  [[nodiscard]] AddedMatch match_added(std::string_view text, bool parse_special) const;
  void encode_plain(std::string_view text, Bpe::Scratch& scratch, std::vector<TokenId>& out) const;

  Vocab vocab_;
  Bpe bpe_;
  PreTokenizer pre_tokenizer_;
  std::vector<TokenId> added_;  // special and user-defined tokens, by their bytes
  std::array<bool, 256> begins_added_{};
  TokenId bos_, pad_, unk_;
  std::vector<TokenId> eos_;
  bool add_bos_, add_eos_, ignore_merges_;
  std::string chat_template_;
};

}  // namespace barge
