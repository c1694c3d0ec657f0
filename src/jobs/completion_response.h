#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "engine/generator.h"
#include "jobs/completion_request.h"

namespace barge {

/// A chat.completion or text_completion object. `results` has one entry for each of
/// request.texts. `generator` spells tokens out.
nlohmann::ordered_json completion_body(const CompletionRequest& request,
                                       std::span<const TextResult> results,
                                       const Generator& generator, std::string_view id,
                                       std::int64_t created);

/// One of the choices of a text_completion, whole.
nlohmann::ordered_json text_choice(const CompletionRequest& request, std::size_t index,
                                   const TextResult& result, const Generator& generator);

/// {"prompt_tokens", "completion_tokens", "total_tokens"}: a prompt counts once, whatever its
/// choices.
nlohmann::ordered_json usage_json(const CompletionRequest& request,
                                  std::span<const TextResult> results);

/// "length" or "stop".
const char* reason_name(FinishReason reason);

/// {"error": {"message", "type", "param", "code"}}; empty param and code are null. The type follows
/// from the status.
nlohmann::ordered_json error_body(const std::string& message, const std::string& param,
                                  const std::string& code, int status);
nlohmann::ordered_json error_body(const RequestError& error);

/// A line of an output or error file, with its newline. `custom_id` none: null.
std::string answer_line(std::string_view id, const std::optional<std::string>& custom_id,
                        int status, std::string_view request_id,
                        const nlohmann::ordered_json& body);

/// The same for a line that wasn't run: "response" is null, "error" has `code` and `message`.
std::string not_run_line(std::string_view id, const std::optional<std::string>& custom_id,
                         std::string_view code, std::string_view message);

/// JSON on one line; bytes that aren't UTF-8 become U+FFFD.
std::string to_text(const nlohmann::ordered_json& value);

}  // namespace barge
