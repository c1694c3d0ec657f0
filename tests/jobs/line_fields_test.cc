#include "jobs/line_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "jobs/batch_line.h"
#include "jobs/body_fields.h"

namespace barge {
namespace {

const std::string kGood =
    R"({"custom_id":"a\u00e9","method":"POST","url":"/v1/chat/completions","body":)"
    R"({"model":"m","messages":[{"role":"user","content":"hi \ud83d\ude00"}],"stream":false,)"
    R"("temperature":0.5,"seed":-7,"stop":null}})";

// "code param message" of what the quick pass finds, and of what the one with the body does.
std::pair<std::string, std::string> both(const std::string& text) {
  const auto words = [](const std::optional<LineProblem>& problem) {
    return problem ? concat(problem->code, ' ', problem->param, ' ', problem->message) : "";
  };
  const LineReader::Line line{text, 1};
  return {words(LineChecker({{}, {"m"}}).problem_of(line)),
          words(LineChecker({{}, {"m"}}).check(line).problem)};
}

std::string with(const std::string& what, const std::string& instead) {
  std::string text = kGood;
  return text.replace(text.find(what), what.size(), instead);
}

TEST(LineScanner, ReadsWhatTheTreeHas) {
  LineScanner scanner;
  for (const std::string& text :
       {kGood, with("\"model\":\"m\"", "\"model\":null"), with("false", "true"), std::string("[1]"),
        with("\"body\":{", "\"body\":[5],\"x\":{"), with("\"POST\"", "5"), with("\"POST\"", "-5.5"),
        with("\"POST\"", "18446744073709551615"), with("\"POST\"", "true"),
        with("false", "\"x\"")}) {
    LineFields quick;
    ASSERT_TRUE(scanner.scan(text, quick)) << text;
    const LineFields tree = line_fields(nlohmann::json::parse(text));
    EXPECT_EQ(quick.is_object, tree.is_object) << text;
    EXPECT_EQ(quick.streams, tree.streams) << text;
    for (const auto field :
         {&LineFields::custom_id, &LineFields::method, &LineFields::url, &LineFields::body,
          &LineFields::model, &LineFields::prompt, &LineFields::messages, &LineFields::stream}) {
      EXPECT_EQ((quick.*field).type, (tree.*field).type) << text;
      EXPECT_EQ((quick.*field).text, (tree.*field).text) << text;
    }
  }
}

TEST(LineScanner, LeavesWhatReadersDisagreeOnToTheSlowOne) {
  LineScanner scanner;
  LineFields fields;
  for (const std::string& text :
       {std::string("{"), std::string(), "\xef\xbb\xbf" + kGood, kGood + "x",
        with("\"model\":\"m\"", R"("model":"m","model":"n")"),
        with("\"method\"", R"("method":"GET","method")"), with("-7", "123456789012345678901"),
        with("-7", "1e999"), with("\\ud83d", ""), with("hi", "h\xffi"), with("hi", "h\ti")})
    EXPECT_FALSE(scanner.scan(text, fields)) << text;
  EXPECT_TRUE(scanner.scan(kGood, fields));  // none the worse
}

TEST(LineScanner, StopsAtTheDepthThatBodiesMayHave) {
  for (int depth = kMaxJsonDepth - 5; depth < kMaxJsonDepth + 5; ++depth) {
    for (const auto& [open, close] : {std::pair{"[", "]"}, {"{\"a\":", "}"}}) {
      std::string deep;
      for (int i = 0; i < depth; ++i) deep += open;
      deep += '1';
      for (int i = 0; i < depth; ++i) deep += close;
      const auto [quick, slow] = both(with("-7", deep));
      EXPECT_EQ(quick, slow);
      EXPECT_EQ(quick.empty(), depth + 2 <= kMaxJsonDepth) << depth << ' ' << quick;
    }
  }
}

TEST(LineChecker, FindsTheSameWithAndWithoutTheBody) {
  std::mt19937 random(7);
  int num_good = 0, num_problems = 0;
  const std::string alphabet = "{}[]\",:\\u0d8\xc3\xff\x01 \tnul5-.e";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = kGood;
    for (unsigned changes = 1 + random() % 2; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else if (random() % 2 == 0)
        text.insert(at, 1, letter);
      else
        text[at] = letter;
    }
    const auto [quick, slow] = both(text);
    ASSERT_EQ(quick, slow) << text;
    ++(slow.empty() ? num_good : num_problems);
  }
  EXPECT_GT(num_good, 1000);
  EXPECT_GT(num_problems, 1000);
}

}  // namespace
}  // namespace barge
