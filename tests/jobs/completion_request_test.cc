#include "jobs/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace barge {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json chat_body(const json& extra = json::object()) {
  json body = {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  body.update(extra);
  return body;
}

json text_body(const json& extra = json::object()) {
  json body = {{"model", "m"}, {"prompt", "hi"}};
  body.update(extra);
  return body;
}

CompletionRequest chat(const json& extra) {
  return parse_completion(Endpoint::kChatCompletions, chat_body(extra), 9);
}
CompletionRequest text(const json& extra) {
  return parse_completion(Endpoint::kCompletions, text_body(extra), 9);
}

TEST(ParseCompletion, TakesOpenAisDefaults) {
  const CompletionRequest request = chat(json::object());
  ASSERT_EQ(request.texts.size(), 1u);
  const TextRequest& one = request.texts[0];
  EXPECT_EQ(one.sampling.temperature, 1);
  EXPECT_EQ(one.sampling.top_p, 1);
  EXPECT_EQ(one.sampling.top_k, 0);
  EXPECT_EQ(one.sampling.seed, 9u);
  EXPECT_EQ(one.sampling.logprobs, -1);
  EXPECT_EQ(one.max_tokens, std::nullopt);
  EXPECT_EQ(text(json::object()).texts[0].max_tokens, 16);
  EXPECT_EQ(std::get<std::string>(text(json::object()).texts[0].prompt), "hi");
}

TEST(ParseCompletion, ReadsEveryField) {
  const CompletionRequest request = chat({{"temperature", 0},
                                          {"top_p", 0.5},
                                          {"top_k", 40},
                                          {"n", 3},
                                          {"seed", -2},
                                          {"stop", {"a", "b"}},
                                          {"max_tokens", 5},
                                          {"max_completion_tokens", 7},
                                          {"logprobs", true},
                                          {"top_logprobs", 2},
                                          {"presence_penalty", 1.5},
                                          {"frequency_penalty", -1.5},
                                          {"logit_bias", {{"17", -100}}},
                                          {"ignore_eos", true},
                                          {"nobody_knows_this", {1, 2}}});
  ASSERT_EQ(request.texts.size(), 3u);
  const TextRequest& last = request.texts[2];
  EXPECT_EQ(last.sampling.choice, 2);
  EXPECT_EQ(last.sampling.temperature, 0);
  EXPECT_EQ(last.sampling.top_p, 0.5f);
  EXPECT_EQ(last.sampling.top_k, 40);
  EXPECT_EQ(last.sampling.seed, static_cast<std::uint64_t>(-2));
  EXPECT_EQ(last.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(last.max_tokens, 7);  // the newer name wins
  EXPECT_EQ(last.sampling.logprobs, 2);
  EXPECT_EQ(last.sampling.presence_penalty, 1.5f);
  EXPECT_EQ(last.sampling.frequency_penalty, -1.5f);
  EXPECT_EQ(last.sampling.logit_bias.at(17), -100);
  EXPECT_TRUE(last.ignore_eos);
}

TEST(ParseCompletion, TakesNullForAbsent) {
  const json nulls = {{"temperature", nullptr}, {"stop", nullptr},   {"n", nullptr},
                      {"max_tokens", nullptr},  {"seed", nullptr},   {"logprobs", nullptr},
                      {"logit_bias", nullptr},  {"stream", nullptr}, {"response_format", nullptr}};
  EXPECT_EQ(chat(nulls).texts[0].sampling.temperature, 1);
}

TEST(ParseCompletion, NumbersChoicesOfManyPromptsConsecutively) {
  const CompletionRequest request = text({{"prompt", {{1, 2}, {3}}}, {"n", 2}});
  ASSERT_EQ(request.texts.size(), 4u);
  EXPECT_EQ(request.choices_per_prompt, 2);
  EXPECT_EQ(std::get<std::vector<TokenId>>(request.texts[1].prompt), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(std::get<std::vector<TokenId>>(request.texts[2].prompt), (std::vector<TokenId>{3}));
  EXPECT_EQ(request.texts[3].sampling.choice, 1);
}

TEST(ParseCompletion, TakesAFlatListOfIdsForOnePrompt) {
  const CompletionRequest request = text({{"prompt", {5, 6, 7}}});
  ASSERT_EQ(request.texts.size(), 1u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(request.texts[0].prompt).size(), 3u);
}

TEST(ParseCompletion, ScoresAPromptAsLmEvalAsks) {
  const CompletionRequest request =
      text({{"prompt", {{1, 2, 3}}}, {"max_tokens", 1}, {"logprobs", 1}, {"echo", true}});
  EXPECT_TRUE(request.echo);
  EXPECT_TRUE(request.texts[0].prompt_logprobs);
  EXPECT_EQ(request.texts[0].sampling.logprobs, 1);
}

TEST(ParseCompletion, TakesTopPZeroForGreedy) {
  EXPECT_EQ(chat({{"top_p", 0}}).texts[0].sampling.temperature, 0);
}

TEST(ParseCompletion, JoinsTextPartsOfAMessage) {
  const CompletionRequest request = chat(
      {{"messages",
        {{{"role", "user"},
          {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}}});
  EXPECT_EQ(std::get<json>(request.texts[0].prompt)[0]["content"], "a\nb");
}

struct Refusal {
  Endpoint endpoint;
  const char* body;  // laid over a good one
  const char* param;
  const char* code;
  const char* message;  // part of it
};

class ParseCompletionRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ParseCompletionRefuses, NamingTheField) {
  const Refusal& refusal = GetParam();
  json body = refusal.endpoint == Endpoint::kCompletions ? text_body() : chat_body();
  body.update(json::parse(refusal.body));
  try {
    parse_completion(refusal.endpoint, body, 0);
    FAIL() << "accepted " << body;
  } catch (const RequestError& error) {
    EXPECT_EQ(error.param, refusal.param);
    EXPECT_EQ(error.code, refusal.code);
    EXPECT_EQ(error.status, 400);
    EXPECT_THAT(error.what(), HasSubstr(refusal.message));
  }
}

constexpr auto kChat = Endpoint::kChatCompletions;
constexpr auto kText = Endpoint::kCompletions;

INSTANTIATE_TEST_SUITE_P(
    Table, ParseCompletionRefuses,
    testing::Values(
        Refusal{kChat, R"({"temperature": "hot"})", "temperature", "invalid_type",
                "Invalid type for 'temperature': expected a decimal, but got a string instead."},
        Refusal{kChat, R"({"temperature": 2.5})", "temperature", "decimal_above_max_value",
                "Expected a value <= 2, but got 2.5 instead."},
        Refusal{kChat, R"({"temperature": -1})", "temperature", "decimal_below_min_value", ">= 0"},
        Refusal{kChat, R"({"top_p": 1.5})", "top_p", "decimal_above_max_value", ""},
        Refusal{kChat, R"({"top_k": -2})", "top_k", "integer_below_min_value", ""},
        Refusal{kChat, R"({"n": 0})", "n", "integer_below_min_value", ">= 1, but got 0"},
        Refusal{kChat, R"({"n": 129})", "n", "integer_above_max_value", ""},
        Refusal{kChat, R"({"n": true})", "n", "invalid_type", "got a boolean"},
        Refusal{kChat, R"({"n": 1.5})", "n", "invalid_type", "expected an integer"},
        Refusal{kChat, R"({"seed": 18446744073709551615})", "seed", "integer_above_max_value", ""},
        Refusal{kChat, R"({"seed": -9223372036854775809})", "seed", "integer_below_min_value", ""},
        Refusal{kChat, R"({"max_tokens": 0})", "max_tokens", "integer_below_min_value", ""},
        Refusal{kChat, R"({"max_tokens": 1e300})", "max_tokens", "integer_above_max_value", ""},
        Refusal{kChat, R"({"max_completion_tokens": [1]})", "max_completion_tokens", "invalid_type",
                "an array"},
        Refusal{kChat, R"({"stop": 5})", "stop", "invalid_type", ""},
        Refusal{kChat, R"({"stop": ["a", 5]})", "stop[1]", "invalid_type", ""},
        Refusal{kChat, R"({"stop": ""})", "stop", "", "empty string"},
        Refusal{kChat, R"({"logprobs": 1})", "logprobs", "invalid_type", "a boolean"},
        Refusal{kChat, R"({"logprobs": true, "top_logprobs": 21})", "top_logprobs",
                "integer_above_max_value", ""},
        Refusal{kChat, R"({"top_logprobs": 2})", "top_logprobs", "invalid_value", "'logprobs'"},
        Refusal{kChat, R"({"presence_penalty": 3})", "presence_penalty", "decimal_above_max_value",
                ""},
        Refusal{kChat, R"({"frequency_penalty": -3})", "frequency_penalty",
                "decimal_below_min_value", ""},
        Refusal{kChat, R"({"logit_bias": {"x": 1}})", "logit_bias", "invalid_value", "'x'"},
        Refusal{kChat, R"({"logit_bias": {"1": 101}})", "logit_bias", "decimal_above_max_value",
                ""},
        Refusal{kChat, R"({"logit_bias": [1]})", "logit_bias", "invalid_type", ""},
        Refusal{kChat, R"({"ignore_eos": "no"})", "ignore_eos", "invalid_type", ""},
        Refusal{kChat, R"({"stream": true})", "stream", "streaming_unsupported", ""},
        Refusal{kChat, R"({"response_format": {"type": "json_object"}})", "response_format",
                "unsupported_parameter", "text"},
        Refusal{kChat, R"({"response_format": {}})", "response_format.type",
                "missing_required_parameter", ""},
        Refusal{kChat, R"({"response_format": "text"})", "response_format", "invalid_type", ""},
        Refusal{kText, R"({"response_format": {"type": "json_schema"}})", "response_format",
                "unsupported_parameter", "text"},
        Refusal{kChat, R"({"tools": [{}]})", "tools", "unsupported_parameter", ""},
        Refusal{kChat, R"({"tools": {}})", "tools", "invalid_type", ""},
        Refusal{kChat, R"({"functions": [{}]})", "functions", "unsupported_parameter", ""},
        Refusal{kChat, R"({"model": 5})", "model", "invalid_type", ""},
        Refusal{kChat, R"({"messages": null})", "messages", "missing_required_parameter",
                "Missing required parameter: 'messages'."},
        Refusal{kChat, R"({"messages": "hi"})", "messages", "invalid_type", ""},
        Refusal{kChat, R"({"messages": []})", "messages", "empty_array", ""},
        Refusal{kChat, R"({"messages": ["hi"]})", "messages[0]", "invalid_type", ""},
        Refusal{kChat, R"({"messages": [{"content": "hi"}]})", "messages[0].role",
                "missing_required_parameter", ""},
        Refusal{kChat, R"({"messages": [{"role": "king", "content": "hi"}]})", "messages[0].role",
                "invalid_value", "'king'"},
        Refusal{kChat, R"({"messages": [{"role": "user"}]})", "messages[0].content",
                "missing_required_parameter", ""},
        Refusal{kChat, R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content",
                "invalid_type", ""},
        Refusal{kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
                "messages[0].content[0].type", "invalid_value", "Only 'text'"},
        Refusal{kText, R"({"prompt": null})", "prompt", "missing_required_parameter", ""},
        Refusal{kText, R"({"prompt": 5})", "prompt", "invalid_type", ""},
        Refusal{kText, R"({"prompt": []})", "prompt", "empty_array", ""},
        Refusal{kText, R"({"prompt": [[1], []]})", "prompt[1]", "empty_array", ""},
        Refusal{kText, R"({"prompt": [1, "a"]})", "prompt[1]", "invalid_type", ""},
        Refusal{kText, R"({"prompt": ["a", 1]})", "prompt[1]", "invalid_type", ""},
        Refusal{kText, R"({"prompt": [[1], [-1]]})", "prompt[1][0]", "integer_below_min_value", ""},
        Refusal{kText, R"({"prompt": [3000000000]})", "prompt[0]", "integer_above_max_value", ""},
        Refusal{kText, R"({"max_tokens": -1})", "max_tokens", "integer_below_min_value", ""},
        Refusal{kText, R"({"logprobs": 6})", "logprobs", "integer_above_max_value", ""},
        Refusal{kText, R"({"echo": 1})", "echo", "invalid_type", ""},
        Refusal{kText, R"({"suffix": "end"})", "suffix", "unsupported_parameter", ""},
        Refusal{kText, R"({"best_of": 3})", "best_of", "unsupported_parameter", ""}));

}  // namespace
}  // namespace barge
