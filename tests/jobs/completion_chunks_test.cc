#include "jobs/completion_chunks.h"

#include <gtest/gtest.h>

#include "jobs/completion_response.h"
#include "tests/support/fake_generator.h"

namespace barge {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

SampledToken token(char letter) {
  return {.id = letter, .logprob = -1, .top = {{letter + 1, -0.5f}}};
}

// A request, and the chunks of its answers.
struct Stream {
  Stream(Endpoint endpoint, const json& body)
      : request(parse_completion(endpoint, body, 1, Streaming::kAllowed)) {
    encode_echoed_prompts(request, generator);
  }
  test::FakeGenerator generator;
  CompletionRequest request;
  CompletionChunks chunks{request, generator, "id-1", 1700000000};
};

json chat(json extra = json::object()) {
  json body = {
      {"model", "m"}, {"stream", true}, {"messages", {{{"role", "user"}, {"content", "x"}}}}};
  body.update(extra);
  return body;
}

TEST(CompletionChunks, SayWhoSpeaksThenWhatThenWhyTheyEnd) {
  Stream stream(Endpoint::kChatCompletions, chat({{"n", 2}}));
  const Json first = stream.chunks.begin(1);
  EXPECT_EQ(first["id"], "id-1");
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["created"], 1700000000);
  EXPECT_EQ(first["model"], "m");
  EXPECT_EQ(first["choices"][0]["index"], 1);
  EXPECT_EQ(first["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(first["choices"][0]["delta"]["content"], "");
  EXPECT_FALSE(first.contains("usage"));
  const Json piece = stream.chunks.piece(1, {"abc", {}});
  EXPECT_EQ(piece["choices"][0]["delta"], (Json{{"content", "abc"}}));
  EXPECT_TRUE(piece["choices"][0]["finish_reason"].is_null());
  EXPECT_TRUE(piece["choices"][0]["logprobs"].is_null());
  const Json end = stream.chunks.end(1, {.text = "abc", .reason = FinishReason::kLength});
  EXPECT_EQ(end["choices"][0]["delta"], Json::object());
  EXPECT_EQ(end["choices"][0]["finish_reason"], "length");
}

TEST(CompletionChunks, TellEachTokenOnceAndTheLastOnesWithTheEnd) {
  Stream stream(Endpoint::kChatCompletions, chat({{"logprobs", true}, {"top_logprobs", 1}}));
  const std::vector<SampledToken> tokens = {token('a'), token('b'), token('c')};
  const Json piece = stream.chunks.piece(0, {"ab", std::span(tokens).first(2)});
  const Json& content = piece["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[1]["token"], "b");
  EXPECT_EQ(content[1]["top_logprobs"][0]["token"], "c");
  const Json end = stream.chunks.end(0, {.text = "ab", .tokens = tokens});
  ASSERT_EQ(end["choices"][0]["logprobs"]["content"].size(), 1u);
  EXPECT_EQ(end["choices"][0]["logprobs"]["content"][0]["token"], "c");
}

TEST(CompletionChunks, CountOffsetsOfACompletionThroughItsPieces) {
  Stream stream(Endpoint::kCompletions, {{"prompt", "x"}, {"stream", true}, {"logprobs", 1}});
  EXPECT_TRUE(stream.chunks.begin(0).is_null());
  const std::vector<SampledToken> tokens = {token('a'), token('b'), token('c')};
  const Json first = stream.chunks.piece(0, {"ab", std::span(tokens).first(2)});
  EXPECT_EQ(first["object"], "text_completion");
  EXPECT_EQ(first["choices"][0]["text"], "ab");
  EXPECT_EQ(first["choices"][0]["logprobs"]["text_offset"], (Json{0, 1}));
  const Json second = stream.chunks.piece(0, {"c", std::span(tokens).last(1)});
  EXPECT_EQ(second["choices"][0]["logprobs"]["tokens"], (Json{"c"}));
  EXPECT_EQ(second["choices"][0]["logprobs"]["text_offset"], (Json{2}));
  const Json end = stream.chunks.end(0, {.text = "abc", .tokens = tokens});
  EXPECT_EQ(end["choices"][0]["text"], "");
  EXPECT_EQ(end["choices"][0]["finish_reason"], "stop");
}

TEST(CompletionChunks, EchoAPromptInOneChunk) {
  Stream stream(Endpoint::kCompletions, {{"prompt", "xy"}, {"stream", true}, {"echo", true}});
  EXPECT_FALSE(stream.chunks.in_pieces());
  const Json end = stream.chunks.end(0, {.text = "abc"});
  EXPECT_EQ(end["choices"][0]["text"], "xyabc");
}

TEST(CompletionChunks, AddUpTheUsageInAChunkWithoutChoices) {
  Stream stream(Endpoint::kChatCompletions,
                chat({{"n", 2}, {"stream_options", {{"include_usage", true}}}}));
  EXPECT_TRUE(stream.chunks.piece(0, {"abc", {}}).at("usage").is_null());
  const TextResult results[] = {{.prompt_tokens = 5, .completion_tokens = 3},
                                {.prompt_tokens = 5, .completion_tokens = 4}};
  const Json last = stream.chunks.usage(results);
  EXPECT_EQ(last["choices"], Json::array());
  EXPECT_EQ(last["usage"],
            (Json{{"prompt_tokens", 5}, {"completion_tokens", 7}, {"total_tokens", 12}}));
}

TEST(StreamOptions, AreForStreamsOnly) {
  const auto error = [](const json& extra, Streaming streaming) {
    json body = chat();
    body.update(extra);
    try {
      parse_completion(Endpoint::kChatCompletions, body, 1, streaming);
    } catch (const RequestError& e) {
      return e.param + ' ' + e.code;
    }
    return std::string("none");
  };
  EXPECT_EQ(error(json::object(), Streaming::kAllowed), "none");
  EXPECT_EQ(error(json::object(), Streaming::kRefused), "stream streaming_unsupported");
  EXPECT_EQ(error({{"stream", 1}}, Streaming::kAllowed), "stream invalid_type");
  const json usage = {{"include_usage", true}};
  EXPECT_EQ(error({{"stream", false}, {"stream_options", usage}}, Streaming::kAllowed),
            "stream_options invalid_value");
  EXPECT_EQ(error({{"stream_options", 5}}, Streaming::kAllowed), "stream_options invalid_type");
  EXPECT_EQ(error({{"stream_options", {{"include_usage", 5}}}}, Streaming::kAllowed),
            "stream_options.include_usage invalid_type");
}

}  // namespace
}  // namespace barge
