#include "server/tokenizer_api.h"

#include <limits>
#include <string>
#include <vector>

#include "core/errors.h"
#include "jobs/body_fields.h"
#include "jobs/chat_messages.h"

namespace barge {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::vector<TokenId> encoded(const BodyFields& fields, const Generator& generator) {
  const auto add_special = fields.boolean("add_special_tokens");
  const auto prompt = fields.string("prompt");
  const bool begins_answer = fields.boolean("add_generation_prompt").value_or(true);
  if (const nlohmann::json* messages = fields.find("messages")) {
    return generator.encode(generator.render(plain_messages(*messages), begins_answer),
                            {.add_special = add_special.value_or(false)});
  }
  if (!prompt) throw_missing("prompt");
  return generator.encode(*prompt, {.add_special = add_special.value_or(true)});
}

}  // namespace

Json tokenize(const nlohmann::json& body, const ServedModel& model) {
  const BodyFields fields(body);
  const std::vector<TokenId> ids = encoded(fields, *model.generator);
  Json reply = {{"count", ids.size()},
                {"max_model_len", model.max_model_len},
                {"tokens", ids},
                {"token_strs", nullptr}};
  if (fields.boolean("return_token_strs").value_or(false)) {
    reply["token_strs"] = Json::array();
    for (const TokenId id : ids) reply["token_strs"].push_back(model.generator->piece(id));
  }
  return reply;
}

Json detokenize(const nlohmann::json& body, const ServedModel& model) {
  const nlohmann::json* tokens = BodyFields(body).find("tokens");
  if (!tokens) throw_missing("tokens");
  if (!tokens->is_array()) throw_type("tokens", "an array of integers", *tokens);
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < tokens->size(); ++i)
    ids.push_back(static_cast<TokenId>(checked_integer((*tokens)[i], concat("tokens[", i, ']'), 0,
                                                       std::numeric_limits<TokenId>::max())));
  return {{"prompt", model.generator->decode(ids)}};
}

Json tokenizer_info(const nlohmann::json&, const ServedModel& model) {
  const TokenizerInfo info = model.generator->tokenizer_info();
  return {{"tokenizer_class", "barge"},
          {"bos_token", or_null(info.bos_token)},
          {"eos_token", or_null(info.eos_token)},
          {"pad_token", or_null(info.pad_token)},
          {"chat_template", or_null(info.chat_template)},
          {"vocab_size", info.vocab_size},
          {"model_max_length", model.max_model_len}};
}

}  // namespace barge
