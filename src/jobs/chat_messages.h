#pragma once

#include <nlohmann/json.hpp>

namespace barge {

/// `messages` as chat templates want them: content in parts becomes one string (text parts, joined
/// by newlines, as vLLM does), other fields stay. Throws RequestError, naming the message, for what
/// isn't a conversation and for parts that aren't text.
nlohmann::json plain_messages(const nlohmann::json& messages);

}  // namespace barge
