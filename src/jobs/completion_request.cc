#include "jobs/completion_request.h"

#include <charconv>
#include <limits>
#include <utility>

#include "core/errors.h"
#include "jobs/body_fields.h"
#include "jobs/chat_messages.h"

namespace barge {
namespace {

using nlohmann::json;

constexpr int kMaxChoicesPerPrompt = 128;  // OpenAI's
constexpr std::size_t kMaxTexts = 4096;    // of one request
constexpr int kMaxChatLogprobs = 20, kMaxLogprobs = 5;
constexpr int kDefaultMaxTokens = 16;  // completions; a chat answer ends where the context does
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void throw_unsupported(const std::string& param, const std::string& what) {
  throw RequestError(concat("Unsupported parameter: '", param, "': ", what), param,
                     "unsupported_parameter");
}

[[noreturn]] void throw_empty(const std::string& param) {
  throw RequestError(
      concat("Invalid '", param, "': empty array. Expected an array with minimum length 1."), param,
      "empty_array");
}

std::vector<TokenId> token_ids(const json& array, const std::string& param) {
  if (array.empty()) throw_empty(param);
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i)
    ids.push_back(
        static_cast<TokenId>(checked_integer(array[i], concat(param, '[', i, ']'), 0, kMaxInt)));
  return ids;
}

// A string, [strings], [ids] or [[ids]].
std::vector<decltype(TextRequest::prompt)> read_prompts(const json& prompt) {
  std::vector<decltype(TextRequest::prompt)> prompts;
  if (prompt.is_string()) {
    prompts.emplace_back(prompt.get<std::string>());
    return prompts;
  }
  if (!prompt.is_array()) throw_type("prompt", "a string or an array", prompt);
  if (prompt.empty()) throw_empty("prompt");
  if (prompt[0].is_number()) {
    prompts.emplace_back(token_ids(prompt, "prompt"));
    return prompts;
  }
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const std::string param = concat("prompt[", i, ']');
    if (prompt[0].is_string() && prompt[i].is_string())
      prompts.emplace_back(prompt[i].get<std::string>());
    else if (prompt[0].is_array() && prompt[i].is_array())
      prompts.emplace_back(token_ids(prompt[i], param));
    else
      throw_type(param, prompt[0].is_string() ? "a string" : "an array of integers", prompt[i]);
  }
  return prompts;
}

std::vector<std::string> read_stops(const BodyFields& fields) {
  std::vector<std::string> stops;
  const json* stop = fields.find("stop");
  if (!stop) return stops;
  if (stop->is_string()) {
    stops.push_back(stop->get<std::string>());
  } else if (stop->is_array()) {
    for (std::size_t i = 0; i < stop->size(); ++i) {
      if (!(*stop)[i].is_string()) throw_type(concat("stop[", i, ']'), "a string", (*stop)[i]);
      stops.push_back((*stop)[i].get<std::string>());
    }
  } else {
    throw_type("stop", "a string or an array of strings", *stop);
  }
  for (const std::string& text : stops)
    if (text.empty()) throw RequestError("stop cannot contain an empty string.", "stop");
  return stops;
}

std::map<TokenId, float> read_logit_bias(const BodyFields& fields) {
  std::map<TokenId, float> biases;
  const json* object = fields.find("logit_bias");
  if (!object) return biases;
  if (!object->is_object()) throw_type("logit_bias", "an object", *object);
  for (const auto& [key, value] : object->items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      throw RequestError(concat("Invalid key in 'logit_bias': '", key,
                                "'. You should only be submitting non-negative integers."),
                         "logit_bias", "invalid_value");
    biases[id] = static_cast<float>(checked_number(value, "logit_bias", -100, 100));
  }
  return biases;
}

SamplingParams read_sampling(const BodyFields& fields, std::uint64_t seed) {
  SamplingParams sampling;
  sampling.temperature = static_cast<float>(fields.number("temperature", 0, 2).value_or(1));
  sampling.top_p = static_cast<float>(fields.number("top_p", 0, 1).value_or(1));
  if (sampling.top_p == 0) {  // nothing but the likeliest token is left
    sampling.top_p = 1;
    sampling.temperature = 0;
  }
  sampling.top_k = static_cast<int>(std::max<std::int64_t>(
      0, fields.integer("top_k", -1, kMaxInt).value_or(0)));  // vLLM: -1 is all, too
  constexpr auto kInt64 = std::numeric_limits<std::int64_t>();
  const auto given = fields.integer("seed", kInt64.min(), kInt64.max());
  sampling.seed = given ? static_cast<std::uint64_t>(*given) : seed;
  sampling.presence_penalty =
      static_cast<float>(fields.number("presence_penalty", -2, 2).value_or(0));
  sampling.frequency_penalty =
      static_cast<float>(fields.number("frequency_penalty", -2, 2).value_or(0));
  sampling.logit_bias = read_logit_bias(fields);
  return sampling;
}

void read_stream(const BodyFields& fields, Streaming streaming, CompletionRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  if (streaming == Streaming::kRefused) {
    if (request.stream)
      throw RequestError("Streaming is not supported in the Batch API.", "stream",
                         "streaming_unsupported");
    return;
  }
  const json* options = fields.find("stream_options");
  if (!options) return;
  if (!options->is_object()) throw_type("stream_options", "an object", *options);
  if (!request.stream)
    throw RequestError("The 'stream_options' parameter is only allowed when 'stream' is enabled.",
                       "stream_options", "invalid_value");
  const auto usage = options->find("include_usage");
  if (usage == options->end() || usage->is_null()) return;
  if (!usage->is_boolean()) throw_type("stream_options.include_usage", "a boolean", *usage);
  request.include_usage = usage->get<bool>();
}

void refuse_unsupported(Endpoint endpoint, const BodyFields& fields) {
  if (endpoint == Endpoint::kCompletions) {
    if (!fields.string("suffix").value_or("").empty())
      throw_unsupported("suffix", "text can't be inserted before a suffix.");
    const auto n = fields.integer("n", 1, kMaxChoicesPerPrompt).value_or(1);
    if (fields.integer("best_of", 1, kMaxChoicesPerPrompt).value_or(n) != n)
      throw_unsupported("best_of", "only the value of 'n' is supported.");
  }
  if (const json* format = fields.find("response_format")) {  // of completions, too, in vLLM
    if (!format->is_object()) throw_type("response_format", "an object", *format);
    const auto type = format->find("type");
    if (type == format->end()) throw_missing("response_format.type");
    if (*type != "text")
      throw_unsupported("response_format", "only {\"type\": \"text\"} is supported.");
  }
  for (const auto& [name, choice_name] :
       {std::pair{"tools", "tool_choice"}, {"functions", "function_call"}}) {
    const json* tools = fields.find(name);
    if (!tools) continue;
    if (!tools->is_array()) throw_type(name, "an array", *tools);
    const json* choice = fields.find(choice_name);
    if (!tools->empty() && !(choice && *choice == "none"))
      throw_unsupported(name, "the model can't be given tools.");
  }
}

std::optional<int> read_max_tokens(Endpoint endpoint, const BodyFields& fields) {
  const bool chat = endpoint == Endpoint::kChatCompletions;
  std::optional<std::int64_t> max_tokens = fields.integer("max_tokens", chat ? 1 : 0, kMaxInt);
  if (chat)
    if (const auto newer = fields.integer("max_completion_tokens", 1, kMaxInt)) max_tokens = newer;
  if (max_tokens) return static_cast<int>(*max_tokens);
  return chat ? std::nullopt : std::optional(kDefaultMaxTokens);
}

// -1: none wanted; else how many beside the sampled token.
int read_logprobs(Endpoint endpoint, const BodyFields& fields) {
  if (endpoint == Endpoint::kCompletions)
    return static_cast<int>(fields.integer("logprobs", 0, kMaxLogprobs).value_or(-1));
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxChatLogprobs);
  if (top && *top > 0 && !wanted)
    throw RequestError("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.",
                       "top_logprobs", "invalid_value");
  return wanted ? static_cast<int>(top.value_or(0)) : -1;
}

}  // namespace

CompletionRequest parse_completion(Endpoint endpoint, const json& body, std::uint64_t seed,
                                   Streaming streaming) {
  const BodyFields fields(body);
  CompletionRequest request{.endpoint = endpoint};
  request.model = fields.string("model").value_or("");
  read_stream(fields, streaming, request);
  refuse_unsupported(endpoint, fields);

  TextRequest text;
  text.sampling = read_sampling(fields, seed);
  text.sampling.logprobs = read_logprobs(endpoint, fields);
  text.stop = read_stops(fields);
  text.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  text.max_tokens = read_max_tokens(endpoint, fields);
  request.logprobs = text.sampling.logprobs >= 0;

  std::vector<decltype(TextRequest::prompt)> prompts;
  if (endpoint == Endpoint::kChatCompletions) {
    const json* messages = fields.find("messages");
    if (!messages) throw_missing("messages");
    prompts.emplace_back(plain_messages(*messages));
  } else {
    const json* prompt = fields.find("prompt");
    if (!prompt) throw_missing("prompt");
    prompts = read_prompts(*prompt);
    request.echo = fields.boolean("echo").value_or(false);
    text.prompt_logprobs = request.echo && request.logprobs;
    request.score_only = text.max_tokens == 0;
    if (request.score_only) text.max_tokens = 1;
  }

  request.num_prompts = static_cast<int>(prompts.size());
  request.choices_per_prompt =
      static_cast<int>(fields.integer("n", 1, kMaxChoicesPerPrompt).value_or(1));
  if (prompts.size() * request.choices_per_prompt > kMaxTexts)
    throw RequestError(
        concat("Invalid 'prompt': ", prompts.size(), " prompts with ", request.choices_per_prompt,
               " choices each are more than ", kMaxTexts, " in one request; split it."),
        "prompt", "array_above_max_length");
  for (auto& prompt : prompts) {
    for (int choice = 0; choice < request.choices_per_prompt; ++choice) {
      TextRequest& one = request.texts.emplace_back(text);
      one.prompt = choice + 1 < request.choices_per_prompt ? prompt : std::move(prompt);
      one.sampling.choice = choice;
    }
  }
  return request;
}

void encode_echoed_prompts(CompletionRequest& request, const Generator& generator) {
  if (!request.echo) return;
  for (TextRequest& text : request.texts)
    if (const auto* prompt = std::get_if<std::string>(&text.prompt))
      text.prompt = generator.encode(*prompt);
}

}  // namespace barge
