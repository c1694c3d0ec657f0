// Bodies of requests: completions, chat (first byte odd) and batches.
#include "core/errors.h"
#include "fuzz/fuzzer.h"
#include "jobs/completion_request.h"
#include "jobs/completion_response.h"
#include "server/api.h"
#include "server/batches.h"
#include "server/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge;
  using namespace barge::fuzz;
  if (size == 0) return 0;
  const std::string_view text = text_of(data + 1, size - 1);
  const Target target(text);
  target.match({"v1", "files", "*", "content"});
  const auto refused_with_a_reason = [](const RequestError& error) {
    require(error.status >= 400 && error.status < 500, "what is asked is to blame");
    to_text(error_body(error));
  };
  try {
    const nlohmann::json body = parse_json(text);
    try {
      batch_json(parse_batch(body, /*now=*/0));
    } catch (const RequestError& error) {
      refused_with_a_reason(error);
    }
    const auto endpoint = data[0] & 1 ? Endpoint::kChatCompletions : Endpoint::kCompletions;
    const auto request = parse_completion(endpoint, body, 1, Streaming::kAllowed);
    require(request.texts.size() ==
                std::size_t(request.num_prompts) * std::size_t(request.choices_per_prompt),
            "there are as many texts as prompts times choices");
  } catch (const RequestError& error) {
    refused_with_a_reason(error);
  }
  return 0;
}
