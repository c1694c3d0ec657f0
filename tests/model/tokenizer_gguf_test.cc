#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/checkpoint.h"
#include "model/tokenizer.h"

namespace barge {
namespace {

using nlohmann::json;

const std::filesystem::path kData = std::filesystem::path(BARGE_TEST_DATA) / "tokenizer";

TEST(TokenizerOfAGguf, IdsEqualHuggingFacesOnThreeHundredTexts) {
  const char* model = std::getenv("BARGE_TEST_MODEL");
  if (model == nullptr || *model == '\0')
    GTEST_SKIP() << "BARGE_TEST_MODEL doesn't name SmolLM2's GGUF (scripts/fetch_model)";
  const Tokenizer tokenizer(read_tokenizer(model));
  std::ifstream strings(kData / "strings.json"), rows(kData / "smollm2.jsonl"),
      chat(kData / "chat/smollm2.jinja");
  for (const std::string text : json::parse(strings)) {
    std::string line;
    ASSERT_TRUE(std::getline(rows, line));
    EXPECT_EQ(tokenizer.encode(text), json::parse(line).at("ids").get<std::vector<TokenId>>())
        << json(text);
  }
  EXPECT_EQ(tokenizer.chat_template(), std::string(std::istreambuf_iterator<char>(chat), {}));
}

}  // namespace
}  // namespace barge
