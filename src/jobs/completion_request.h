#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "jobs/batch_line.h"

namespace barge {

/// A body of /v1/completions or /v1/chat/completions, understood.
struct CompletionRequest {
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::string model;
  int num_prompts = 1, choices_per_prompt = 1;
  /// What is to be generated, by the index of the choice: prompt * choices_per_prompt + k.
  std::vector<TextRequest> texts;
  bool echo = false;           // completions: the prompt comes first in text and log-probabilities
  bool logprobs = false;       // wanted at all
  bool score_only = false;     // max_tokens 0: one token is generated and thrown away
  bool stream = false;         // as server-sent events
  bool include_usage = false;  // at the end of a stream
};

/// Whether answers may be asked for piece by piece: not in a batch.
enum class Streaming { kRefused, kAllowed };

/// Reads `body` (an object). Unknown fields are ignored; fields that would change the answer and
/// aren't supported (response_format, tools, suffix, best_of) are refused. `seed` is for
/// bodies that bring none.
/// Throws RequestError naming the field for each missing one, wrong type and value out of range.
CompletionRequest parse_completion(Endpoint endpoint, const nlohmann::json& body,
                                   std::uint64_t seed, Streaming streaming = Streaming::kRefused);

/// Turns prompts that are to be echoed into token ids, so that they can be spelled out later.
void encode_echoed_prompts(CompletionRequest& request, const Generator& generator);

}  // namespace barge
