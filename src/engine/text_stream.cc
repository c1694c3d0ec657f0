#include "engine/text_stream.h"

#include <utility>

#include "engine/logits_hash.h"

namespace barge {

TextStream::TextStream(const Tokenizer& tokenizer, const TextRequest& request, int prompt_tokens,
                       std::function<void(const TextPiece&)> on_text,
                       std::function<void(TextResult)> done)
    : tokenizer_(tokenizer),
      ignore_eos_(request.ignore_eos),
      keep_tokens_(request.sampling.logprobs >= 0),
      detokenizer_(tokenizer, /*skip_special=*/true),
      stops_(request.stop),
      on_text_(std::move(on_text)),
      done_(std::move(done)) {
  result_.prompt_tokens = prompt_tokens;
}

void TextStream::on_prompt(std::vector<SampledToken> tokens) {
  for (const SampledToken& token : tokens)
    result_.logits_hash = combine_hash(result_.logits_hash, token.logits_hash);
  result_.prompt_logprobs = std::move(tokens);
}

bool TextStream::on_token(const SampledToken& token) {
  ++result_.completion_tokens;
  result_.logits_hash = combine_hash(result_.logits_hash, token.logits_hash);
  if (keep_tokens_) result_.tokens.push_back(token);
  // The token that ends an answer counts, as in vLLM, but isn't text.
  if (!ignore_eos_ && tokenizer_.is_eos(token.id)) return true;
  append(stops_.push(detokenizer_.push(token.id)));
  return !stops_.stopped();
}

void TextStream::on_done(FinishReason reason, std::string error) {
  if (reason != FinishReason::kError) {
    append(stops_.push(detokenizer_.flush()));
    append(stops_.flush());
    if (stops_.stopped()) reason = FinishReason::kStop;
  }
  result_.reason = reason;
  result_.error = std::move(error);
  done_(std::move(result_));
}

void TextStream::append(const std::string& text) {
  if (text.empty()) return;
  result_.text += text;
  if (on_text_) on_text_({text, std::span<const SampledToken>(result_.tokens).subspan(told_)});
  told_ = result_.tokens.size();
}

}  // namespace barge
