#include "model/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/errors.h"

namespace barge {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

const std::filesystem::path kData = std::filesystem::path(BARGE_TEST_DATA) / "tokenizer/chat";

std::string read(const std::string& name) {
  std::ifstream in(kData / name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class ChatGoldens : public testing::TestWithParam<std::string> {};

TEST_P(ChatGoldens, ConversationsReadAsJinja2RendersThem) {
  const ChatTemplate chat(read(GetParam() + ".jinja"));
  const auto conversations = ordered_json::parse(read("conversations.json"));
  std::istringstream rows(read("goldens.jsonl"));
  int checked = 0;
  for (std::string line; std::getline(rows, line);) {
    const auto row = ordered_json::parse(line);
    if (row.at("template") != GetParam()) continue;
    ++checked;
    const auto& conversation = conversations.at(row.at("conversation").get<std::size_t>());
    ordered_json variables = ordered_json::object();
    if (conversation.contains("tools")) variables["tools"] = conversation.at("tools");
    const ChatTemplate::Options options{.add_generation_prompt = row.at("add_generation_prompt"),
                                        .bos_token = "<s>",
                                        .eos_token = "</s>",
                                        .variables = &variables};
    const auto render = [&] { return chat.render(conversation.at("messages"), options); };
    if (row.contains("text")) {
      EXPECT_EQ(render(), row.at("text").get<std::string>()) << line;
    } else {
      EXPECT_THROW((void)render(), RequestError) << line;
    }
  }
  EXPECT_EQ(checked, 62);  // 31 conversations, with and without the beginning of an answer
}

INSTANTIATE_TEST_SUITE_P(ChatTemplate, ChatGoldens,
                         testing::Values("smollm2", "chatml", "llama3", "qwen2", "mistral"),
                         [](const auto& info) { return info.param; });

TEST(ChatTemplate, HandsTheTemplatesOwnErrorToTheUser) {
  const ChatTemplate chat(read("mistral.jinja"));
  const auto messages = nlohmann::json::parse(R"([{"role": "assistant", "content": "x"}])");
  EXPECT_THAT([&] { (void)chat.render(messages, {}); },
              testing::ThrowsMessage<RequestError>(testing::StartsWith("After the optional")));
}

TEST(ChatTemplate, NamesTheLineAndTheReasonWhenItFails) {
  const ChatTemplate chat("{{ bos_token }}\n{{ messages[0].content + 1 }}");
  const auto messages = nlohmann::json::parse(R"([{"role": "user", "content": "x"}])");
  EXPECT_THAT(
      [&] { (void)chat.render(messages, {}); },
      testing::ThrowsMessage<RequestError>(HasSubstr("line 2: cannot compute string + integer")));
}

TEST(ChatTemplate, RefusesMessagesThatNestTooDeep) {
  const ChatTemplate chat("{{ messages }}");
  nlohmann::json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = nlohmann::json::array({std::move(deep)});
  EXPECT_THROW((void)chat.render(deep, {}), RequestError);
}

}  // namespace
}  // namespace barge
