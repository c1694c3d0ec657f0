#include "engine/text_engine.h"

#include <gmock/gmock.h>

#include <future>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "tests/support/test_model.h"

namespace barge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A tiny model that speaks bytes, with a template.
class TextEngineTest : public testing::Test {
 protected:
  static const TestModel& model() {
    static const TestModel model(tiny_llama_config());
    return model;
  }
  static TestSetup setup_with_eos(TokenId eos) {
    TestSetup setup;
    setup.eos = {eos};
    return setup;
  }
  static TokenizerSpec spec_with_eos(TokenId eos) {
    TokenizerSpec spec = model().description().tokenizer;
    spec.eos = {eos};
    return spec;
  }

  struct Outcome {
    TextResult result;
    std::vector<std::string> pieces;
    std::vector<TokenId> told;  // tokens of all pieces
  };
  static Outcome run(TextEngine& text, const TextRequest& request) {
    Outcome outcome;
    std::promise<void> end;
    text.submit(
        request,
        [&](const TextPiece& piece) {
          outcome.pieces.emplace_back(piece.text);
          for (const SampledToken& token : piece.tokens) outcome.told.push_back(token.id);
        },
        [&](TextResult result) {
          outcome.result = std::move(result);
          end.set_value();
        });
    end.get_future().wait();
    return outcome;
  }

  static TextRequest request(const std::string& prompt, int max_tokens) {
    TextRequest r{.prompt = prompt, .max_tokens = max_tokens, .ignore_eos = true};
    r.sampling.temperature = 1.5f;
    r.sampling.seed = 4;
    r.sampling.logprobs = 0;
    return r;
  }

  static std::vector<TokenId> ids_of(const TextResult& result) {
    std::vector<TokenId> ids;
    for (const SampledToken& token : result.tokens) ids.push_back(token.id);
    return ids;
  }

  TestEngine engine_{model()};
  const Tokenizer tokenizer_{model().description().tokenizer};
  const ChatTemplate chat_{"{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"};
  TextEngine text_{*engine_.engine, tokenizer_, &chat_};
};

TEST_F(TextEngineTest, AnswersWithTheTextOfItsTokensPieceByPiece) {
  const Outcome outcome = run(text_, request("Once upon", 40));
  const TextResult& result = outcome.result;
  EXPECT_EQ(result.reason, FinishReason::kLength);
  EXPECT_EQ(result.completion_tokens, 40);
  EXPECT_EQ(result.prompt_tokens, static_cast<int>(tokenizer_.encode("Once upon").size()));
  ASSERT_EQ(result.tokens.size(), 40u);
  EXPECT_EQ(result.text, tokenizer_.decode(ids_of(result), /*skip_special=*/true));
  std::string joined;
  for (const std::string& piece : outcome.pieces) joined += piece;
  EXPECT_EQ(joined, result.text);
  EXPECT_GT(outcome.pieces.size(), 5u);
  EXPECT_NE(result.logits_hash, 0u);
  EXPECT_EQ(run(text_, request("Once upon", 40)).result.logits_hash, result.logits_hash);
}

TEST_F(TextEngineTest, TellsEachTokenWithTheTextThatItMade) {
  const Outcome outcome = run(text_, request("Once upon", 40));
  const auto ids = ids_of(outcome.result);
  ASSERT_LE(outcome.told.size(), ids.size());
  EXPECT_TRUE(std::equal(outcome.told.begin(), outcome.told.end(), ids.begin()));
  EXPECT_GE(outcome.told.size(), outcome.pieces.size());
  TextRequest quiet = request("Once upon", 40);
  quiet.sampling.logprobs = -1;
  EXPECT_TRUE(run(text_, quiet).told.empty());
}

TEST_F(TextEngineTest, KeepsNoTokensWhereNoLogprobsAreWanted) {
  TextRequest r = request("a", 5);
  r.sampling.logprobs = -1;
  EXPECT_TRUE(run(text_, r).result.tokens.empty());
}

TEST_F(TextEngineTest, StopsBeforeAStopStringThatRunsAcrossTokens) {
  TextRequest r = request("Once upon", 60);
  const std::string whole = run(text_, r).result.text;
  for (const std::size_t at : {whole.size() / 3, whole.size() / 2}) {
    r.stop = {"never said by anyone", whole.substr(at, 5)};
    const Outcome outcome = run(text_, r);
    EXPECT_EQ(outcome.result.reason, FinishReason::kStop);
    EXPECT_EQ(outcome.result.text, whole.substr(0, whole.find(r.stop[1])));
    EXPECT_LT(outcome.result.completion_tokens, 60);
    std::string joined;
    for (const std::string& piece : outcome.pieces) joined += piece;
    EXPECT_EQ(joined, outcome.result.text);
  }
}

TEST_F(TextEngineTest, LeavesTheEndTokenOutOfTheTextAndCountsIt) {
  const TextResult free = run(text_, request("Once upon", 30)).result;
  const TokenId eos = ids_of(free)[9];
  const Tokenizer tokenizer(spec_with_eos(eos));
  TestEngine engine(model(), setup_with_eos(eos));
  TextEngine text(*engine.engine, tokenizer, nullptr);
  TextRequest r = request("Once upon", 30);
  r.ignore_eos = false;
  const TextResult ended = run(text, r).result;
  EXPECT_EQ(ended.reason, FinishReason::kStop);
  const auto ids = ids_of(ended);
  ASSERT_LE(ids.size(), 10u);
  EXPECT_EQ(ended.completion_tokens, static_cast<int>(ids.size()));
  EXPECT_EQ(ids.back(), eos);
  EXPECT_EQ(ended.text,
            tokenizer.decode(std::span(ids).first(ids.size() - 1), /*skip_special=*/true));
}

TEST_F(TextEngineTest, SaysWhatItMakesOfAConversation) {
  const nlohmann::json messages = {{{"role", "user"}, {"content", "hi"}}};
  EXPECT_EQ(text_.render(messages, /*begins_answer=*/true), "<user>hi");
  EXPECT_EQ(text_.ids({.prompt = messages}), text_.encode("<user>hi", {.add_special = false}));
  const TokenizerInfo info = text_.tokenizer_info();
  EXPECT_THAT(info.chat_template, HasSubstr("m.role"));
  EXPECT_EQ(info.eos_token, tokenizer_.eos_text());
  EXPECT_EQ(info.vocab_size, tokenizer_.vocab_size());
}

TEST_F(TextEngineTest, FillsTheContextWhereNoLengthIsAskedFor) {
  TextRequest r = request("Once upon", 0);
  r.max_tokens.reset();
  const TextResult result = run(text_, r).result;
  EXPECT_EQ(result.prompt_tokens + result.completion_tokens, engine_.engine->max_positions());
}

TEST_F(TextEngineTest, NamesBothNumbersWhereAPromptFillsTheContext) {
  TextRequest r = request(std::string(128, 'x'), 0);
  r.max_tokens.reset();
  EXPECT_THAT([&] { run(text_, r); },
              ThrowsMessage<RequestError>(testing::AllOf(HasSubstr("128"), HasSubstr("129"))));
}

TEST_F(TextEngineTest, RendersAConversationAndContinuesIt) {
  TextRequest chat = request("", 12), plain = request("<user>Hi<assistant>Ho", 12);
  chat.prompt = nlohmann::json::parse(
      R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])");
  EXPECT_EQ(run(text_, chat).result.text, run(text_, plain).result.text);
}

TEST_F(TextEngineTest, RefusesAConversationWithoutATemplateAndSaysWhatToDo) {
  TextEngine bare(*engine_.engine, tokenizer_, nullptr);
  TextRequest chat = request("", 1);
  chat.prompt = nlohmann::json::parse(R"([{"role": "user", "content": "Hi"}])");
  EXPECT_THAT([&] { run(bare, chat); }, ThrowsMessage<RequestError>(HasSubstr("--chat-template")));
}

TEST_F(TextEngineTest, ScoresThePromptOnly) {
  TextRequest r = request("Once upon", 0);
  r.prompt_logprobs = true;
  const TextResult result = run(text_, r).result;
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.prompt_logprobs.size(), static_cast<std::size_t>(result.prompt_tokens) - 1);
}

TEST_F(TextEngineTest, TakesTokenIdsAsTheyAre) {
  TextRequest ids = request("", 10);
  ids.prompt = tokenizer_.encode("Once upon");
  EXPECT_EQ(run(text_, ids).result.text, run(text_, request("Once upon", 10)).result.text);
}

}  // namespace
}  // namespace barge
