#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "engine/generator.h"
#include "engine/stop_matcher.h"
#include "model/detokenizer.h"

namespace barge {

/// Makes one answer's text of its tokens as they come. One thread.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, const TextRequest& request, int prompt_tokens,
             std::function<void(const TextPiece&)> on_text, std::function<void(TextResult)> done);

  void on_prompt(std::vector<SampledToken> tokens);
  /// False once a stop string is complete.
  bool on_token(const SampledToken& token);
  void on_done(FinishReason reason, std::string error);

 private:
  void append(const std::string& text);

  const Tokenizer& tokenizer_;
  const bool ignore_eos_, keep_tokens_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::function<void(const TextPiece&)> on_text_;
  std::function<void(TextResult)> done_;
  TextResult result_;
  std::size_t told_ = 0;  // of result_.tokens
};

}  // namespace barge
