#include "model/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "model/tokenizer.h"

namespace barge {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Type = TokenizerSpec::TokenType;

/// A directory of its own that is gone after the test.
class TokenizerDir : public testing::Test {
 protected:
  TokenizerDir() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::temp_directory_path() / concat("barge-", info->name(), "-", ::getpid());
    std::filesystem::create_directories(dir_);
  }
  ~TokenizerDir() override { std::filesystem::remove_all(dir_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  [[nodiscard]] TokenizerSpec read() const { return tokenizer_spec_from_dir(dir_); }

  static json tokenizer() {
    return json::parse(R"({
      "added_tokens": [{"id": 3, "content": "</s>", "special": true, "normalized": false}],
      "normalizer": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "post_processor": null,
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
  }
  void refuse(const json& changed, const std::string& message) const {
    write("tokenizer.json", changed.dump());
    EXPECT_THAT([&] { (void)read(); }, testing::ThrowsMessage<FormatError>(HasSubstr(message)));
  }

  std::filesystem::path dir_;
};

TEST_F(TokenizerDir, TakesEndTokensFromAllFilesTheTokenizersOwnFirst) {
  write("tokenizer.json", tokenizer().dump());
  write("tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "bos_token": "a"})");
  write("generation_config.json", R"({"eos_token_id": [1, 3, 999]})");
  write("config.json", R"({"eos_token_id": 2})");  // generation_config.json hides it
  const TokenizerSpec spec = read();
  EXPECT_THAT(spec.eos, ElementsAre(3, 1));
  EXPECT_EQ(spec.bos, 0);
  EXPECT_FALSE(spec.add_bos);
  EXPECT_EQ(spec.pre_tokenizer, "gpt-2");
  EXPECT_THAT(spec.types, ElementsAre(Type::kNormal, Type::kNormal, Type::kNormal, Type::kControl));
  EXPECT_THAT(spec.merges, ElementsAre("a b"));
}

TEST_F(TokenizerDir, ReadsMergesOfEitherForm) {
  json old = tokenizer();
  old["model"]["merges"] = {"a b"};
  write("tokenizer.json", old.dump());
  EXPECT_THAT(read().merges, ElementsAre("a b"));
}

TEST_F(TokenizerDir, FindsTheChatTemplateWhereverItStands) {
  write("tokenizer.json", tokenizer().dump());
  EXPECT_EQ(read().chat_template, "");
  write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(read().chat_template, "one");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                                       {"name": "default", "template": "d"}]})");
  EXPECT_EQ(read().chat_template, "d");
  write("chat_template.jinja", "file");
  EXPECT_EQ(read().chat_template, "file");
}

TEST_F(TokenizerDir, ReadsOptFromVocabAndMerges) {
  write("vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5})");
  write("merges.txt", "#version: 0.2\na b\n");
  write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true,
      "bos_token": {"content": "</s>"}, "eos_token": {"content": "</s>"}, "pad_token": "<pad>"})");
  const Tokenizer tokenizer(read());
  EXPECT_THAT(tokenizer.encode("ab</s>a"), ElementsAre(2, 5, 2, 3));
  EXPECT_EQ(tokenizer.pad(), 1);
  EXPECT_TRUE(tokenizer.is_eos(2));
}

TEST_F(TokenizerDir, NamesWhatItCannotMap) {
  const auto with = [](const char* pointer, const json& value) {
    json changed = tokenizer();
    changed[json::json_pointer(pointer)] = value;
    return changed;
  };
  refuse(with("/pre_tokenizer", {{"type", "Metaspace"}}), "Metaspace");
  refuse(with("/pre_tokenizer/add_prefix_space", true), "add_prefix_space");
  refuse(with("/normalizer", {{"type", "Lowercase"}}), "Lowercase");
  refuse(with("/model/type", "Unigram"), "Unigram");
  refuse(with("/model/byte_fallback", true), "byte_fallback");
  refuse(with("/model/merges", {{"a", "b", "c"}}), "merge 0");
  refuse(with("/model/vocab/a", -1), "the id -1");
  refuse(with("/model/vocab/a", 2'000'000'000), "the id 2000000000");
  refuse(with("/model/vocab/a", 1), "two tokens");
  refuse(with("/added_tokens/0/lstrip", true), "lstrip");
  refuse(with("/added_tokens/0/id", 1), "two tokens");
  refuse(with("/post_processor", {{"type", "BertProcessing"}}), "BertProcessing");
  refuse(json(), "not a tokenizer");
  refuse(json::array({1}), "not a tokenizer");
  refuse(tokenizer().dump().substr(0, 200), "not a tokenizer");  // a JSON string
}

TEST_F(TokenizerDir, NamesFilesThatAreMissingOrBroken) {
  EXPECT_THAT([&] { (void)read(); },
              testing::ThrowsMessage<FormatError>(HasSubstr("there is no tokenizer")));
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}}) {
    write("tokenizer.json", tokenizer().dump().substr(0, size));
    EXPECT_THAT([&] { (void)read(); },
                testing::ThrowsMessage<FormatError>(HasSubstr("tokenizer.json is not valid JSON")));
  }
  write("tokenizer.json", tokenizer().dump());
  write("tokenizer_config.json", "[]");
  EXPECT_THROW((void)read(), FormatError);
  write("tokenizer_config.json", "{");
  EXPECT_THROW((void)read(), FormatError);
}

}  // namespace
}  // namespace barge
