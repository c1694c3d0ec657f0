#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"

namespace barge {

/// One text to be continued, once: a request with n choices is n of these.
struct TextRequest {
  /// A prompt's text, its token ids, or a conversation (JSON array of messages).
  std::variant<std::string, std::vector<TokenId>, nlohmann::json> prompt;
  SamplingParams sampling;
  std::optional<int> max_tokens;  // at least 1; none: as many as the context has room for
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool prompt_logprobs = false;
  bool urgent = false;  // see GenerationRequest
};

/// More of an answer that isn't finished.
struct TextPiece {
  std::string_view text;                 // that has become certain; never empty
  std::span<const SampledToken> tokens;  // since the last piece; only if logprobs are wanted
};

struct TextResult {
  std::string text;  // without the stop string
  FinishReason reason = FinishReason::kStop;
  std::string error;  // for kError
  int prompt_tokens = 0, completion_tokens = 0;
  std::vector<SampledToken> tokens;           // only if logprobs are wanted
  std::vector<SampledToken> prompt_logprobs;  // only if wanted; of all prompt tokens but the first
  std::uint64_t logits_hash = 0;              // over all positions, if the engine hashes
};

/// What clients that tokenise by themselves ask for. Texts are empty where there is none.
struct TokenizerInfo {
  std::string bos_token, eos_token, pad_token;
  std::string chat_template;  // Jinja
  std::size_t vocab_size = 0;
};

/// What jobs and the server need of a TextEngine. Tests put a fake in its place. Thread-safe.
class Generator {
 public:
  using RequestId = std::uint64_t;
  virtual ~Generator() = default;

  /// Throws RequestError for what can be seen at once (template errors, too long, ...); `done` is
  /// never called then. `on_text` (may be empty) gets pieces of the answer as they become certain,
  /// all of its text in the end; `done` is called once, perhaps before this returns. Both on the
  /// engine's thread; they must be quick and must not call the generator.
  virtual RequestId submit(const TextRequest& request,
                           std::function<void(const TextPiece&)> on_text,
                           std::function<void(TextResult)> done) = 0;
  /// The request ends as kCancelled at the end of the sweep; unknown ids are ignored.
  virtual void cancel(RequestId id) = 0;
  /// Empty while all is well; else why nothing will be generated any more. Set before the first
  /// request ends because of it.
  virtual std::string failure() const = 0;

  /// The ids of a text: by default those that `submit` would make of a prompt's.
  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const = 0;
  /// The text that `submit` makes of a conversation and encodes without adding special tokens, with
  /// or without the beginning of an answer. Throws RequestError.
  virtual std::string render(const nlohmann::json& messages, bool begins_answer) const = 0;
  virtual TokenizerInfo tokenizer_info() const = 0;
  /// Valid UTF-8.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;
  /// The bytes of one token, perhaps a part of a character; empty for an unknown id.
  virtual std::string piece(TokenId id) const = 0;
};

}  // namespace barge
