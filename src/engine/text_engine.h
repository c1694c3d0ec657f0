#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"

namespace barge {

/// Text in, text out, over an Engine: chat template, tokenising, incremental detokenising, stop
/// strings (also across token borders). Thread-safe.
class TextEngine {
 public:
  struct Request {
    /// A prompt's text, its token ids, or a conversation (JSON array of messages).
    std::variant<std::string, std::vector<TokenId>, nlohmann::json> prompt;
    SamplingParams sampling;
    std::optional<int> max_tokens;  // none: as many as the context has room for
    std::vector<std::string> stop;
    bool ignore_eos = false;
    bool prompt_logprobs = false;
  };
  struct Result {
    std::string text;  // without the stop string
    FinishReason reason = FinishReason::kStop;
    std::string error;  // for kError
    int prompt_tokens = 0, completion_tokens = 0;
    std::vector<SampledToken> tokens;           // only if logprobs are wanted
    std::vector<SampledToken> prompt_logprobs;  // only if wanted
    std::uint64_t logits_hash = 0;              // over all positions, if the engine hashes
  };

  /// References must outlive this. `chat` may be null: conversations are refused then.
  TextEngine(Engine& engine, const Tokenizer& tokenizer, const ChatTemplate* chat);

  /// Throws RequestError for what can be seen at once (template errors, too long, ...).
  /// `on_text` (may be empty) gets pieces of the answer as they become certain; `done` is called
  /// once. Both on the engine's thread; they must be quick.
  Engine::RequestId submit(const Request& request, std::function<void(std::string_view)> on_text,
                           std::function<void(Result)> done);
  void cancel(Engine::RequestId id) { engine_.cancel(id); }

  Engine& engine() { return engine_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const ChatTemplate* chat() const { return chat_; }

 private:
  Engine& engine_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
};

}  // namespace barge
