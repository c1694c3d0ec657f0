#pragma once

#include <nlohmann/json.hpp>

#include "server/server.h"

namespace barge {

/// POST /tokenize, as vLLM has it: {"prompt"} or {"messages", "add_generation_prompt"?}, and
/// {"add_special_tokens"?, "return_token_strs"?} → {"count", "max_model_len", "tokens",
/// "token_strs"}. Throws RequestError, as do the others.
nlohmann::ordered_json tokenize(const nlohmann::json& body, const ServedModel& model);

/// POST /detokenize: {"tokens"} → {"prompt"}.
nlohmann::ordered_json detokenize(const nlohmann::json& body, const ServedModel& model);

/// GET /tokenizer_info: what lm-eval's remote tokenizer reads, by the names of Hugging Face's
/// tokenizer_config.json.
nlohmann::ordered_json tokenizer_info(const nlohmann::json& body, const ServedModel& model);

}  // namespace barge
