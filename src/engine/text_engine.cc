#include "engine/text_engine.h"

#include <memory>
#include <utility>

#include "core/errors.h"
#include "engine/text_stream.h"

namespace barge {

TextEngine::TextEngine(Engine& engine, const Tokenizer& tokenizer, const ChatTemplate* chat)
    : engine_(engine), tokenizer_(tokenizer), chat_(chat) {}

std::vector<TokenId> TextEngine::ids(const Request& request) const {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) return *ids;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) return encode(*text);
  return encode(render(std::get<nlohmann::json>(request.prompt), /*begins_answer=*/true),
                {.add_special = false, .parse_special = true});
}

std::string TextEngine::render(const nlohmann::json& messages, bool begins_answer) const {
  if (chat_ == nullptr)
    throw RequestError(
        "this model has no chat template: send a plain prompt, or start barge with "
        "--chat-template FILE",
        "messages");
  return chat_->render(messages, {.add_generation_prompt = begins_answer,
                                  .bos_token = tokenizer_.bos_text(),
                                  .eos_token = tokenizer_.eos_text()});
}

TokenizerInfo TextEngine::tokenizer_info() const {
  return {.bos_token = std::string(tokenizer_.bos_text()),
          .eos_token = std::string(tokenizer_.eos_text()),
          .pad_token = piece(tokenizer_.pad()),
          .chat_template = chat_ ? chat_->source() : "",
          .vocab_size = tokenizer_.vocab_size()};
}

Engine::RequestId TextEngine::submit(const Request& request,
                                     std::function<void(const TextPiece&)> on_text,
                                     std::function<void(Result)> done) {
  GenerationRequest generation{.prompt = ids(request),
                               .sampling = request.sampling,
                               .ignore_eos = request.ignore_eos,
                               .prompt_logprobs = request.prompt_logprobs,
                               .urgent = request.urgent};
  const auto prompt_tokens = static_cast<int>(generation.prompt.size());
  // A prompt that fills the context asks for one token more, so that the error names both numbers.
  generation.max_tokens =
      request.max_tokens.value_or(std::max(1, engine_.max_positions() - prompt_tokens));
  // Shared by the callbacks, of which the engine keeps copies for as long as it needs.
  const auto stream = std::make_shared<TextStream>(tokenizer_, request, prompt_tokens,
                                                   std::move(on_text), std::move(done));
  if (request.prompt_logprobs)
    generation.on_prompt = [stream](std::vector<SampledToken> tokens) {
      stream->on_prompt(std::move(tokens));
    };
  generation.on_token = [stream](const SampledToken& token) { return stream->on_token(token); };
  generation.on_done = [stream](FinishReason reason, std::string error) {
    stream->on_done(reason, std::move(error));
  };
  return engine_.submit(std::move(generation));
}

}  // namespace barge
