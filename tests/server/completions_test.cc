#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

json chat(const json& extra = json::object(), const std::string& content = "hello") {
  json body = {{"model", "m/x"}, {"messages", {{{"role", "user"}, {"content", content}}}}};
  body.update(extra);
  return body;
}

constexpr const char* kChat = "/v1/chat/completions";

// The data of server-sent events; the last is "[DONE]".
std::vector<std::string> events_of(const std::string& text) {
  std::vector<std::string> events;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one);) {
    if (one.starts_with("data: ")) events.push_back(one.substr(6));
  }
  return events;
}

class CompletionsTest : public ServerTest {
 protected:
  HttpReply post(const std::string& target, const json& body) {
    return call("POST", target, body.dump());
  }
  std::string text_of(json body) {
    body["stream"] = false;
    return post(kChat, body).json()["choices"][0]["message"]["content"];
  }
  std::vector<json> chunks(const std::string& target, const json& body) {
    const HttpReply reply = post(target, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_THAT(reply.headers.at("content-type"), StartsWith("text/event-stream"));
    std::vector<std::string> events = events_of(reply.body);
    EXPECT_EQ(events.empty() ? "" : events.back(), "[DONE]") << reply.body;
    std::vector<json> parsed;
    for (const std::string& one : events)
      if (one != "[DONE]") parsed.push_back(json::parse(one));
    return parsed;
  }
  void wait_until_waiting(std::size_t count) {
    const auto begin = std::chrono::steady_clock::now();
    while (generator_.num_waiting() != count) {
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

TEST_F(CompletionsTest, AnswerAChat) {
  start();
  const HttpReply reply = post(kChat, chat({{"seed", 5}}));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  const json body = reply.json();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ("req_" + body["id"].get<std::string>().substr(9), reply.headers.at("x-request-id"));
  EXPECT_EQ(body["model"], "m/x");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["usage"]["completion_tokens"], 32);
  EXPECT_EQ(text_of(chat({{"seed", 5}})), body["choices"][0]["message"]["content"]);
  EXPECT_NE(text_of(chat()), text_of(chat())) << "without a seed each request has its own";
}

TEST_F(CompletionsTest, ScoreAPromptOfTokensAsLmEvalAsks) {
  start();
  const json body = post("/v1/completions", {{"model", "m/x"},
                                             {"prompt", {{65, 66, 67}, {68, 69}}},
                                             {"temperature", 0},
                                             {"max_tokens", 1},
                                             {"logprobs", 1},
                                             {"seed", 1234},
                                             {"echo", true}})
                        .json();
  ASSERT_EQ(body["choices"].size(), 2u);
  for (const int i : {0, 1}) {
    const json& lists = body["choices"][i]["logprobs"];
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(lists["token_logprobs"].size(), 4u - i);
    EXPECT_EQ(lists["top_logprobs"].size(), 4u - i);
    EXPECT_TRUE(lists["token_logprobs"][0].is_null());
    EXPECT_TRUE(lists["top_logprobs"][1].contains(lists["tokens"][1].get<std::string>()));
  }
}

TEST_F(CompletionsTest, StreamWhatTheyWouldAnswer) {
  start();
  const json body = chat({{"seed", 5}, {"stream", true}});
  const std::vector<json> all = chunks(kChat, body);
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(all.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(all.back()["choices"][0]["finish_reason"], "stop");
  std::string text;
  for (const json& chunk : all) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], all.front()["id"]);
    EXPECT_FALSE(chunk.contains("usage"));
    text += chunk["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, text_of(body));
}

TEST_F(CompletionsTest, StreamChoicesByIndexAndEndWithTheirUsage) {
  start();
  const std::vector<json> all =
      chunks("/v1/completions", {{"model", "m/x"},
                                 {"prompt", {"one", "two"}},
                                 {"n", 2},
                                 {"max_tokens", 9},
                                 {"logprobs", 0},
                                 {"stream", true},
                                 {"stream_options", {{"include_usage", true}}}});
  std::map<int, std::string> texts, tokens, reasons;
  for (const json& chunk : all) {
    EXPECT_EQ(chunk["object"], "text_completion");
    for (const json& choice : chunk["choices"]) {
      const int index = choice["index"];
      texts[index] += choice["text"];
      if (!choice["logprobs"].is_null())
        for (const std::string token : choice["logprobs"]["tokens"]) tokens[index] += token;
      if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
    }
  }
  ASSERT_EQ(texts.size(), 4u);
  for (const auto& [index, text] : texts) {
    EXPECT_EQ(text.size(), 9u);
    EXPECT_EQ(tokens[index], text);
    EXPECT_EQ(reasons[index], "length");
  }
  EXPECT_TRUE(all.back()["choices"].empty());
  EXPECT_EQ(all.back()["usage"]["completion_tokens"], 36);
  EXPECT_EQ(all.back()["usage"]["prompt_tokens"], 6);
}

TEST_F(CompletionsTest, SendPiecesWhileTheyRunAndKeepTheConnection) {
  start();
  generator_.pause_after(0);
  HttpClient client(server_->port());
  const std::string body = chat({{"stream", true}}).dump();
  client.send(concat("POST ", kChat, " HTTP/1.1\r\nHost: h\r\nContent-Length: ", body.size(),
                     "\r\n\r\n", body));
  EXPECT_EQ(client.receive_header().status, 200);
  std::string text;
  while (events_of(text).size() < 2) text += client.receive_chunk();
  EXPECT_EQ(
      json::parse(events_of(text)[1])["choices"][0]["delta"]["content"].get<std::string>().size(),
      4u);
  EXPECT_EQ(call("GET", "/health").status, 200);  // the others aren't held up
  generator_.resume();
  for (std::string chunk = client.receive_chunk(); !chunk.empty(); chunk = client.receive_chunk())
    text += chunk;
  EXPECT_EQ(events_of(text).back(), "[DONE]");
  EXPECT_EQ(client.call("GET", "/health").status, 200);
}

TEST_F(CompletionsTest, EndAStreamWithTheConnectionForOldClients) {
  start();
  HttpClient client(server_->port());
  const std::string body = chat({{"stream", true}}).dump();
  client.send(
      concat("POST ", kChat, " HTTP/1.0\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  const HttpReply header = client.receive_header();
  EXPECT_FALSE(header.headers.contains("transfer-encoding"));
  EXPECT_EQ(events_of(client.receive_rest()).back(), "[DONE]");
}

TEST_F(CompletionsTest, AreCancelledWithTheirClient) {
  start();
  generator_.pause_after(0);
  for (const bool stream : {false, true}) {
    std::optional<HttpClient> client(std::in_place, server_->port());
    const std::string body = chat({{"stream", stream}, {"n", 3}}).dump();
    client->send(concat("POST ", kChat, " HTTP/1.1\r\nHost: h\r\nContent-Length: ", body.size(),
                        "\r\n\r\n", body));
    wait_until_waiting(3);
    client.reset();
    wait_until_waiting(0);
  }
}

TEST_F(CompletionsTest, LeaveNothingBehindWhereTheServerStops) {
  start();
  generator_.pause_after(0);
  HttpClient whole(server_->port()), stream(server_->port());
  for (auto* client : {&whole, &stream}) {
    const std::string body = chat({{"stream", client == &stream}}).dump();
    client->send(concat("POST ", kChat, " HTTP/1.1\r\nHost: h\r\nContent-Length: ", body.size(),
                        "\r\n\r\n", body));
  }
  wait_until_waiting(2);
  server_.reset();
  generator_.resume();  // answers that nobody takes
  wait_until_waiting(0);
}

TEST_F(CompletionsTest, SayWhatIsWrong) {
  start();
  const auto refusal = [&](const json& body, const std::string& target = kChat) {
    const HttpReply reply = post(target, body);
    const json error = reply.json()["error"];
    return concat(reply.status, ' ', error["param"].dump(), ' ', error["code"].dump());
  };
  EXPECT_EQ(refusal(chat({{"model", "other"}})), R"(404 "model" "model_not_found")");
  EXPECT_EQ(refusal(chat({{"messages", nullptr}})),
            R"(400 "messages" "missing_required_parameter")");
  EXPECT_EQ(refusal({{"model", "m/x"}}, "/v1/completions"),
            R"(400 "prompt" "missing_required_parameter")");
  EXPECT_EQ(refusal(chat(json::object(), "TOO LONG")),
            R"(400 "messages" "context_length_exceeded")");
  EXPECT_EQ(refusal(chat({{"stream", true}}, "TOO LONG")),
            R"(400 "messages" "context_length_exceeded")");
  EXPECT_EQ(refusal(chat({{"response_format", {{"type", "json_object"}}}})),
            R"(400 "response_format" "unsupported_parameter")");
  EXPECT_EQ(refusal(chat({{"tools", {{{"type", "function"}}}}})),
            R"(400 "tools" "unsupported_parameter")");
  EXPECT_EQ(refusal(chat(json::object(), "EXPLODE")), "500 null null");
  EXPECT_EQ(refusal(json::array()), R"(400 "body" "invalid_type")");
  EXPECT_EQ(call("POST", kChat, "{").status, 400);
  EXPECT_EQ(call("POST", kChat, std::string(5000, '[')).status, 400);
  EXPECT_EQ(call("GET", kChat).status, 405);
  json nameless = chat();
  nameless.erase("model");
  EXPECT_EQ(post(kChat, nameless).json()["model"], "m/x");
}

TEST_F(CompletionsTest, CancelTheOtherChoicesWhereOneIsRefused) {
  start();
  generator_.pause_after(0);
  EXPECT_EQ(post("/v1/completions", {{"prompt", {"fine", "TOO LONG"}}}).status, 400);
  wait_until_waiting(0);
}

TEST_F(CompletionsTest, SendAnErrorEventBehindTheFirstByte) {
  start();
  const HttpReply reply = post(kChat, chat({{"stream", true}}, "EXPLODE"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("event: error\ndata: {\"error\":"));
  EXPECT_THAT(events_of(reply.body).back(), HasSubstr("the sampler lost its dice"));
}

TEST_F(CompletionsTest, AskForPatienceWhileTheModelLoads) {
  start(/*ready=*/false);
  const HttpReply reply = post(kChat, chat());
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.at("retry-after"), "5");
  EXPECT_EQ(reply.json()["error"]["type"], "server_error");
}

TEST_F(CompletionsTest, AskForTheKey) {
  options_.api_keys = {"other", "secret"};
  start();
  EXPECT_EQ(post(kChat, chat()).status, 401);
  EXPECT_EQ(call("POST", kChat, chat().dump(), "Authorization: Bearer secret\r\n").status, 200);
}

class BrokenEngine : public CompletionsTest {
 protected:
  void SetUp() override {
    server_.emplace(options_);
    server_->serve({.generator = &broken_, .identity = identity_});
  }
  FakeGenerator broken_{{.fail_after = 1}};
  // The server goes before its generator.
  void TearDown() override { server_.reset(); }
};

TEST_F(BrokenEngine, IsToldToEveryClient) {
  EXPECT_EQ(post(kChat, chat()).status, 200);
  for (int i = 0; i < 2; ++i) {  // the one who sees it break, and one who comes later
    const HttpReply reply = post(kChat, chat());
    EXPECT_EQ(reply.status, 500);
    EXPECT_THAT(reply.body, HasSubstr("the disk is gone"));
  }
  EXPECT_EQ(call("GET", "/health").status, 503);
}

}  // namespace
}  // namespace barge::test
