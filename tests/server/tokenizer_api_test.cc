#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

class TokenizerApi : public ServerTest {
 protected:
  TokenizerApi() { generator_.adds_bos = true; }
  void SetUp() override { start(); }
  json post(const std::string& target, const json& body) {
    const HttpReply reply = call("POST", target, body.dump());
    return reply.status == 200 ? reply.json() : json(concat(reply.status, ' ', reply.body));
  }
};

TEST_F(TokenizerApi, TokenisesAPromptWithAndWithoutSpecialTokens) {
  const json with = post("/tokenize", {{"model", "m/x"}, {"prompt", "AB"}});
  EXPECT_EQ(with["tokens"], (json{'^', 65, 66}));
  EXPECT_EQ(with["count"], 3);
  EXPECT_TRUE(with["max_model_len"].is_number_integer());
  EXPECT_TRUE(with["token_strs"].is_null());
  const json without = post("/tokenize", {{"prompt", "AB"}, {"add_special_tokens", false}});
  EXPECT_EQ(without["tokens"], (json{65, 66}));
  const json spelled = post("/tokenize", {{"prompt", "AB"}, {"return_token_strs", true}});
  EXPECT_EQ(spelled["token_strs"], (json{"^", "A", "B"}));
}

TEST_F(TokenizerApi, TokenisesAConversationAsItsTemplateSpellsIt) {
  const json messages = {{{"role", "user"}, {"content", "hi"}}};
  const auto text = [&](const json& extra) {
    json body = {{"messages", messages}};
    body.update(extra);
    return post("/detokenize", {{"tokens", post("/tokenize", body)["tokens"]}})["prompt"];
  };
  EXPECT_EQ(text(json::object()), messages.dump() + ">");
  EXPECT_EQ(text({{"add_generation_prompt", false}}), messages.dump());
  EXPECT_EQ(text({{"add_special_tokens", true}}), "^" + messages.dump() + ">");
}

TEST_F(TokenizerApi, SaysWhatLmEvalWantsToKnow) {
  const json info = call("GET", "/tokenizer_info").json();
  EXPECT_EQ(info["eos_token"], "$");
  EXPECT_TRUE(info.at("bos_token").is_null());
  EXPECT_EQ(info["chat_template"], "{{ messages }}");
}

TEST_F(TokenizerApi, RefusesWhatItCannotRead) {
  const auto refusal = [&](const std::string& target, const json& body) {
    const HttpReply reply = call("POST", target, body.dump());
    return concat(reply.status, ' ', reply.json()["error"]["param"].dump());
  };
  EXPECT_EQ(refusal("/tokenize", json::object()), R"(400 "prompt")");
  EXPECT_EQ(refusal("/tokenize", {{"prompt", 5}}), R"(400 "prompt")");
  EXPECT_EQ(refusal("/tokenize", {{"messages", 5}}), R"(400 "messages")");
  EXPECT_EQ(refusal("/tokenize", {{"messages", json::array()}, {"prompt", 5}}), R"(400 "prompt")");
  EXPECT_EQ(refusal("/tokenize", {{"model", "z"}, {"prompt", "x"}}), R"(404 "model")");
  EXPECT_EQ(refusal("/detokenize", json::object()), R"(400 "tokens")");
  EXPECT_EQ(refusal("/detokenize", {{"tokens", {1, -1}}}), R"(400 "tokens[1]")");
  EXPECT_EQ(call("GET", "/tokenize").status, 405);
}

}  // namespace
}  // namespace barge::test
