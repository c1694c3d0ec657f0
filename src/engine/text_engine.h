#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/generator.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"

namespace barge {

/// Text in, text out, over an Engine: chat template, tokenising, incremental detokenising, stop
/// strings (also across token borders). Thread-safe.
class TextEngine final : public Generator {
 public:
  using Request = TextRequest;
  using Result = TextResult;

  /// References must outlive this. `chat` may be null: conversations are refused then.
  TextEngine(Engine& engine, const Tokenizer& tokenizer, const ChatTemplate* chat);

  /// Throws RequestError for what can be seen at once (template errors, too long, ...).
  /// `on_text` (may be empty) gets pieces of the answer as they become certain; `done` is called
  /// once. Both on the engine's thread; they must be quick.
  Engine::RequestId submit(const Request& request, std::function<void(const TextPiece&)> on_text,
                           std::function<void(Result)> done) override;
  void cancel(Engine::RequestId id) override { engine_.cancel(id); }
  std::string failure() const override { return engine_.failure(); }

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const override {
    return tokenizer_.encode(text, options);
  }
  std::string render(const nlohmann::json& messages, bool begins_answer) const override;
  TokenizerInfo tokenizer_info() const override;
  std::string decode(std::span<const TokenId> ids) const override { return tokenizer_.decode(ids); }
  /// The ids that `submit` makes of a prompt. Throws RequestError.
  std::vector<TokenId> ids(const Request& request) const;
  std::string piece(TokenId id) const override {
    return tokenizer_.contains(id) ? std::string(tokenizer_.piece(id)) : std::string();
  }

  Engine& engine() { return engine_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const ChatTemplate* chat() const { return chat_; }

 private:
  Engine& engine_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
};

}  // namespace barge
