#include "jobs/completion_response.h"

#include <gtest/gtest.h>

#include "tests/support/fake_generator.h"

namespace barge {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

// The body for `request`, with answers as the fake makes them.
Json answer(Endpoint endpoint, const json& body) {
  test::FakeGenerator generator;
  CompletionRequest request = parse_completion(endpoint, body, 1);
  encode_echoed_prompts(request, generator);
  std::vector<TextResult> results(request.texts.size());
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t missing = results.size();
  for (std::size_t i = 0; i < results.size(); ++i)
    generator.submit(request.texts[i], {}, [&, i](TextResult result) {
      const std::lock_guard lock(mutex);
      results[i] = std::move(result);
      if (--missing == 0) changed.notify_one();
    });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return missing == 0; });
  return completion_body(request, results, generator, "id-1", 1700000000);
}

TEST(CompletionBody, IsAChatCompletion) {
  const Json body = answer(
      Endpoint::kChatCompletions,
      {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 4}});
  EXPECT_EQ(body["id"], "id-1");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["created"], 1700000000);
  EXPECT_EQ(body["model"], "m");
  ASSERT_EQ(body["choices"].size(), 1u);
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"].get<std::string>().size(), 4u);
  EXPECT_TRUE(choice["message"].at("refusal").is_null());
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["total_tokens"].get<int>(),
            body["usage"]["prompt_tokens"].get<int>() + 4);
}

TEST(CompletionBody, CountsAPromptOnceWhateverItsChoices) {
  const Json body =
      answer(Endpoint::kCompletions,
             {{"model", "m"}, {"prompt", {"abc", "defgh"}}, {"n", 2}, {"max_tokens", 3}});
  EXPECT_EQ(body["object"], "text_completion");
  ASSERT_EQ(body["choices"].size(), 4u);
  EXPECT_EQ(body["choices"][3]["index"], 3);
  EXPECT_NE(body["choices"][2]["text"], body["choices"][3]["text"]);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 8);
  EXPECT_EQ(body["usage"]["completion_tokens"], 12);
}

TEST(CompletionBody, ListsChatLogprobs) {
  const Json body =
      answer(Endpoint::kChatCompletions, {{"model", "m"},
                                          {"messages", {{{"role", "user"}, {"content", "hi"}}}},
                                          {"max_tokens", 2},
                                          {"logprobs", true},
                                          {"top_logprobs", 1}});
  const Json& content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  const auto text = body["choices"][0]["message"]["content"].get<std::string>();
  EXPECT_EQ(content[0]["token"], text.substr(0, 1));
  EXPECT_EQ(content[0]["bytes"], Json::array({static_cast<int>(text[0])}));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 1u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["logprob"], -0.5);
}

// What lm-eval's log-likelihood reads.
TEST(CompletionBody, EchoesPromptsWithALogprobForEachTokenButTheFirst) {
  const Json body = answer(Endpoint::kCompletions, {{"model", "m"},
                                                    {"prompt", json::array({{97, 98, 99}})},
                                                    {"max_tokens", 1},
                                                    {"logprobs", 1},
                                                    {"echo", true}});
  const Json& choice = body["choices"][0];
  const Json& lists = choice["logprobs"];
  EXPECT_EQ(choice["text"].get<std::string>().substr(0, 3), "abc");
  ASSERT_EQ(lists["token_logprobs"].size(), 4u);
  ASSERT_EQ(lists["top_logprobs"].size(), 4u);
  EXPECT_TRUE(lists["token_logprobs"][0].is_null());
  EXPECT_TRUE(lists["top_logprobs"][0].is_null());
  for (std::size_t i = 1; i < 4; ++i) {
    const auto token = lists["tokens"][i].get<std::string>();
    EXPECT_EQ(lists["top_logprobs"][i][token], lists["token_logprobs"][i]) << token;
    EXPECT_EQ(lists["text_offset"][i], i);
  }
}

TEST(CompletionBody, ScoresOnlyThePromptForMaxTokensZero) {
  const Json body = answer(
      Endpoint::kCompletions,
      {{"model", "m"}, {"prompt", "abcd"}, {"max_tokens", 0}, {"logprobs", 0}, {"echo", true}});
  EXPECT_EQ(body["choices"][0]["text"], "abcd");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"].size(), 4u);
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
}

TEST(CompletionBody, NamesOnlyFiniteNumbers) {
  test::FakeGenerator generator;
  const auto request = parse_completion(Endpoint::kCompletions,
                                        {{"model", "m"}, {"prompt", "a"}, {"logprobs", 1}}, 1);
  TextResult result;
  result.tokens = {{.id = 65, .logprob = -INFINITY, .top = {{66, -1.5f}}}};
  const Json body = completion_body(request, {&result, 1}, generator, "id", 0);
  EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"][0], -9999);
}

TEST(AnswerLine, HasTheBatchApisKeys) {
  const std::string line =
      answer_line("batch_req_1", "my \"id\"\n", 200, "req_1", {{"text", "caf\xc3\xa9"}});
  EXPECT_EQ(line,
            "{\"id\":\"batch_req_1\",\"custom_id\":\"my \\\"id\\\"\\n\",\"response\":{\"status_"
            "code\":200,\"request_id\":\"req_1\",\"body\":{\"text\":\"caf\xc3\xa9\"}},\"error\":"
            "null}\n");
}

TEST(AnswerLine, WritesErrorsAsTheHttpAnswerWouldBe) {
  const RequestError error("bad", "n", "invalid_type");
  const Json line = Json::parse(
      answer_line("batch_req_1", std::nullopt, error.status, "req_1", error_body(error)));
  EXPECT_TRUE(line.at("custom_id").is_null());
  EXPECT_TRUE(line.at("error").is_null());
  EXPECT_EQ(line["response"]["status_code"], 400);
  EXPECT_EQ(line["response"]["body"]["error"], (Json{{"message", "bad"},
                                                     {"type", "invalid_request_error"},
                                                     {"param", "n"},
                                                     {"code", "invalid_type"}}));
}

TEST(AnswerLine, ReplacesBytesThatAreNotUtf8) {
  const std::string line = answer_line("i", "c", 200, "r", {{"text", "a\xff"}});
  EXPECT_NE(line.find("a\xef\xbf\xbd"), std::string::npos);
}

}  // namespace
}  // namespace barge
