#include "jobs/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string good(const std::string& id, const std::string& model = "m") {
  return R"({"custom_id":")" + id +
         R"(","method":"POST","url":"/v1/completions","body":{"model":")" + model +
         R"(","prompt":"hi"}})";
}

Validation check(const std::string& bytes, LineRules rules = {}, ValidationLimits limits = {}) {
  const test::TempDirectory directory;
  test::write_file(directory / "in.jsonl", bytes);
  return validate(directory / "in.jsonl", rules, limits);
}

// "line code param" of each problem.
std::vector<std::string> problems(const Validation& found) {
  std::vector<std::string> words;
  for (const LineProblem& problem : found.problems)
    words.push_back(concat(problem.line, ' ', problem.code, ' ', problem.param));
  return words;
}

struct BadLine {
  const char* line;
  const char* code;
  const char* param;
};

class ValidationFinds : public testing::TestWithParam<BadLine> {};

TEST_P(ValidationFinds, TheBadLineByItsNumber) {
  const BadLine& bad = GetParam();
  const Validation found = check(good("a") + "\n\n" + bad.line + "\n" + good("b") + "\n",
                                 {Endpoint::kCompletions, {"m"}});
  EXPECT_EQ(found.num_requests, 3u);
  EXPECT_THAT(problems(found), ElementsAre(concat("3 ", bad.code, ' ', bad.param)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ValidationFinds,
    testing::Values(
        BadLine{"{", "invalid_json_line", ""}, BadLine{"nonsense", "invalid_json_line", ""},
        BadLine{"{\"a\":\"\xff\"}", "invalid_json_line", ""},
        BadLine{"{\"a\":\"\\ud800\"}", "invalid_json_line", ""},
        BadLine{"[1,2]", "invalid_request", ""}, BadLine{"5", "invalid_request", ""},
        BadLine{R"({"method":"POST","url":"/v1/completions","body":{}})",
                "missing_required_parameter", "custom_id"},
        BadLine{R"({"custom_id":7,"method":"POST","url":"/v1/completions","body":{}})",
                "invalid_type", "custom_id"},
        BadLine{R"({"custom_id":"c","url":"/v1/completions","body":{}})",
                "missing_required_parameter", "method"},
        BadLine{R"({"custom_id":"c","method":"GET","url":"/v1/completions","body":{}})",
                "invalid_method", "method"},
        BadLine{R"({"custom_id":"c","method":"POST","body":{}})", "missing_required_parameter",
                "url"},
        BadLine{R"({"custom_id":"c","method":"POST","url":"/v1/completions"})",
                "missing_required_parameter", "body"},
        BadLine{R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":"x"})",
                "invalid_type", "body"},
        BadLine{R"({"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{}})",
                "invalid_url", "url"},
        BadLine{
            R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":{"prompt":"x"}})",
            "invalid_request", "body.model"},
        BadLine{
            R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":{"model":"z","prompt":"x"}})",
            "model_not_found", "body.model"},
        BadLine{
            R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":{"model":4,"prompt":"x"}})",
            "invalid_type", "body.model"},
        BadLine{R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":{"model":"m"}})",
                "missing_required_parameter", "body.prompt"},
        BadLine{
            R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"x","stream":true}})",
            "streaming_unsupported", "body.stream"},
        BadLine{
            R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"x"}})",
            "duplicate_custom_id", "custom_id"}));

TEST(Validation, TakesBothUrlsWhereNoneIsPrescribed) {
  const Validation found =
      check(good("a") +
            "\n{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{"
            "\"model\":\"m\",\"messages\":[]}}\n"
            "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{}}");
  EXPECT_THAT(problems(found), ElementsAre("3 invalid_url url"));
}

TEST(Validation, FindsTheModelThatDiffersFromTheFirst) {
  EXPECT_THAT(problems(check(good("a") + "\n" + good("b", "other") + "\n" + good("c"))),
              ElementsAre("2 mismatched_model body.model"));
}

TEST(Validation, TakesAByteOrderMarkCarriageReturnsBlankLinesAndNoLastNewline) {
  const Validation found =
      check("\xef\xbb\xbf" + good("a") + "\r\n  \t\r\n\n" + good("b") + "\r\n" + good("c"));
  EXPECT_THAT(problems(found), IsEmpty());
  EXPECT_EQ(found.num_requests, 3u);
}

TEST(Validation, ReadsOneByteOrderMarkOnly) {
  EXPECT_THAT(problems(check("\xef\xbb\xbf\xef\xbb\xbf" + good("a"))),
              ElementsAre("1 invalid_json_line "));
}

TEST(Validation, RefusesFilesWithoutARequest) {
  for (const char* bytes : {"", "\n", " \r\n\n", "\xef\xbb\xbf", "\xef\xbb\xbf\n"})
    EXPECT_THAT(problems(check(bytes)), ElementsAre("0 empty_file ")) << bytes;
}

TEST(Validation, RefusesFilesWithTooManyRequests) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += good(std::to_string(i)) + "\n";
  EXPECT_THAT(problems(check(bytes, {}, {.max_requests = 8})), IsEmpty());
  EXPECT_THAT(problems(check(bytes, {}, {.max_requests = 7})), ElementsAre("0 too_many_tasks "));
}

TEST(Validation, CountsProblemsThatItDoesNotKeep) {
  const Validation found = check("x\ny\nz\n", {}, {.max_problems = 2});
  EXPECT_EQ(found.num_problems, 3u);
  EXPECT_THAT(problems(found), ElementsAre("1 invalid_json_line ", "2 invalid_json_line "));
}

TEST(Validation, RefusesBodiesThatNestTooDeepWithoutFallingOffTheStack) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THAT(problems(check(good("a") + "\n" + deep + "\n" + good("b"))),
              ElementsAre("2 invalid_json_line "));
  EXPECT_THAT(problems(check(R"({"a":")" + std::string(500, '[') + "\"}\n")),
              ElementsAre("1 missing_required_parameter custom_id"));
}

TEST(Validation, SkipsALineThatIsTooLongAndGoesOn) {
  const std::string giant(kMaxLineBytes + 10, 'x');
  EXPECT_THAT(problems(check(good("a") + "\n" + giant + "\n" + good("b") + "\n" + "x")),
              ElementsAre("2 line_too_long ", "4 invalid_json_line "));
  EXPECT_THAT(problems(check(good("a") + "\n" + giant)), ElementsAre("2 line_too_long "));
}

TEST(Validation, TellsCustomIdsApartByteByByte) {
  EXPECT_THAT(problems(check(good("a") + "\n" + good("A") + "\n" + good("a ") + "\n" +
                             good("\\u0061\\u0000") + "\n" + good("\\u0061"))),
              ElementsAre("5 duplicate_custom_id custom_id"));
}

TEST(Validation, WritesProblemsAsABatchShowsThem) {
  const auto errors = problems_json({{"a", "b", "", 0}, {"c", "d", "e", 7}});
  EXPECT_EQ(errors.dump(),
            R"({"object":"list","data":[{"code":"a","message":"b","param":null,"line":null},)"
            R"({"code":"c","message":"d","param":"e","line":7}]})");
}

TEST(LineReader, FindsLinesThatCrossItsChunks) {
  const test::TempDirectory directory;
  std::string bytes;
  std::vector<std::string> wanted;
  for (int i = 0; i < 40; ++i) {
    wanted.push_back(std::string(static_cast<std::size_t>(i) * 7919 % 65'537, 'a' + i % 26) + "!");
    bytes += wanted.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  test::write_file(directory / "f", bytes);
  LineReader reader(directory / "f");
  LineReader::Line line;
  for (const std::string& text : wanted) {
    ASSERT_TRUE(reader.next(line));
    EXPECT_EQ(line.text, text);
  }
  EXPECT_FALSE(reader.next(line));
  EXPECT_EQ(reader.content_hash(), hash128(bytes));
}

TEST(LineReader, RefusesWhatIsNotAFile) {
  EXPECT_THROW(LineReader("/nowhere/in.jsonl"), IoError);
  EXPECT_THROW(LineReader("/"), IoError);
  EXPECT_THROW(LineReader("/dev/null"), IoError);
}

TEST(DerivedSeed, IsFixedForever) {
  EXPECT_EQ(hash128("").hex(), "6c62272e07bb014262b821756295c58d");  // FNV-1a's own vectors
  EXPECT_EQ(hash128("foobar").hex(), "343e1662793c64bf6f0d3597ba446f18");
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu);  // SplitMix64's first output for seed 0
  EXPECT_NE(derived_seed(0, "a"), derived_seed(0, "b"));
  EXPECT_NE(derived_seed(0, "a"), derived_seed(1, "a"));
}

TEST(HashSet, KnowsWhatItHolds) {
  HashSet set;
  EXPECT_TRUE(set.insert({}));
  EXPECT_FALSE(set.insert({}));
  for (std::uint64_t i = 1; i < 5000; ++i) EXPECT_TRUE(set.insert({i, mix64(i)}));
  for (std::uint64_t i = 1; i < 5000; ++i) EXPECT_FALSE(set.insert({i, mix64(i)}));
  EXPECT_EQ(set.size(), 5000u);
}

}  // namespace
}  // namespace barge
