#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/errors.h"
#include "model/pre_tokenizer.h"
#include "model/unicode_nfc.h"

namespace barge {
namespace {

using nlohmann::json;
using testing::ElementsAre;

struct Case {
  const char *pre_tokenizer, *golden;
};

class Splits : public testing::TestWithParam<Case> {};

TEST_P(Splits, EqualHuggingFacesOnThreeHundredTexts) {
  const std::filesystem::path data = std::filesystem::path(BARGE_TEST_DATA) / "tokenizer";
  std::ifstream strings(data / "strings.json"),
      rows(data / (std::string(GetParam().golden) + ".jsonl"));
  const PreTokenizer pre_tokenizer(GetParam().pre_tokenizer);
  for (const std::string text : json::parse(strings)) {
    std::string line;
    ASSERT_TRUE(std::getline(rows, line));
    const std::vector<std::string> wanted = json::parse(line).at("words");
    const std::string normal = pre_tokenizer.wants_nfc() ? to_nfc(text) : text;
    const auto words = pre_tokenizer.split(normal);
    EXPECT_EQ(std::vector<std::string>(words.begin(), words.end()), wanted) << json(text);
  }
}

INSTANTIATE_TEST_SUITE_P(PreTokenizer, Splits,
                         testing::Values(Case{"smollm", "smollm2"}, Case{"gpt-2", "gpt2"},
                                         Case{"opt", "opt"}, Case{"llama-bpe", "llama3"},
                                         Case{"qwen2", "qwen2"}),
                         [](const auto& info) { return std::string(info.param.golden); });

TEST(PreTokenizer, MakesWordsOfBytesThatAreNotUtf8) {
  const PreTokenizer gpt2("gpt-2");
  EXPECT_THAT(gpt2.split("a\xFF\xE2\x82 b"), ElementsAre("a", "\xFF", "\xE2\x82", " b"));
  EXPECT_THAT(gpt2.split("\xF0\x9F"), ElementsAre("\xF0\x9F"));
  EXPECT_THAT(gpt2.split(""), ElementsAre());
}

TEST(PreTokenizer, FindsItsNameByTheExpressionOfATokenizerJson) {
  EXPECT_EQ(pre_tokenizer_by_pattern("x+"), "");
  EXPECT_EQ(pre_tokenizer_by_pattern(""), "");
}

TEST(Nfc, ComposesOrdersAndLeavesErrorsInPlace) {
  EXPECT_EQ(to_nfc("e\u0301"), "é");
  EXPECT_EQ(to_nfc("s\u0307\u0323"), "\u1E69");             // order, then twice composed
  EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307");      // nothing to compose with
  EXPECT_EQ(to_nfc("\u1100\u1161\u11A8"), "\uAC01");        // Hangul
  EXPECT_EQ(to_nfc("\uAC00\u11A7"), "\uAC00\u11A7");        // not a trailing consonant
  EXPECT_EQ(to_nfc("\u212B\u0958"), "\u00C5\u0915\u093C");  // never compose again
  EXPECT_EQ(to_nfc("a\u0338\u0301"), "\u00E1\u0338");       // over a mark of another class
  EXPECT_EQ(to_nfc("\xFF"
                   "e\u0301\xC3"),
            "\xFF"
            "é\xC3");
  EXPECT_TRUE(is_surely_nfc("café"));
  EXPECT_FALSE(is_surely_nfc("e\u0301"));
}

}  // namespace
}  // namespace barge
