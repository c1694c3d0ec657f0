#include "server/web_page.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

TEST_F(ServerTest, GivesThePageToEverybodyAndItsDataToThoseWithAKey) {
  options_.api_keys = {"secret"};
  start();
  const HttpReply page = call("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, StartsWith("<!doctype html>"));
  EXPECT_EQ(call("GET", "/v1/batches").status, 401);
}

TEST_F(ServerTest, LetsThePageLoadAndCallNothingElse) {
  start();
  for (const char* target : {"/", "/page/main.js"}) {
    const auto headers = call("GET", target).headers;
    EXPECT_THAT(headers.at("content-security-policy"),
                AllOf(HasSubstr("default-src 'none'"), HasSubstr("frame-ancestors 'none'"),
                      Not(HasSubstr("unsafe-inline")), Not(HasSubstr("http"))));
    EXPECT_EQ(headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(headers.at("referrer-policy"), "no-referrer");
  }
}

// A name that is misspelt would show only in a browser.
TEST_F(ServerTest, HasEachFileThatAnotherFileOfThePageNames) {
  start();
  std::size_t named = 0;
  for (const PageFile& file : page_files()) {
    const std::string text(file.bytes);
    std::vector<std::string> targets;
    for (const auto& name : matches(text, R"re((?:src|href)="(page/[^"]+)")re"))
      targets.push_back("/" + name);
    for (const auto& name : matches(text, R"re(from "\./([^"]+)")re"))
      targets.push_back("/page/" + name);
    for (const std::string& target : targets) {
      ++named;
      const HttpReply reply = call("GET", target);
      EXPECT_EQ(reply.status, 200) << file.name << " names " << target;
      EXPECT_EQ(reply.body.size(), std::stoul(reply.headers.at("content-length")));
      if (target.ends_with(".js")) {
        EXPECT_EQ(reply.headers.at("content-type"), "text/javascript; charset=utf-8");
      }
    }
  }
  EXPECT_GT(named, 5u);
}

TEST_F(ServerTest, GivesTheVeryBytesOfThePagesFiles) {
  start();
  const std::filesystem::path directory = BARGE_TEST_DATA "/../../src/server/page";
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    ++found;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(call("GET", "/page/" + entry.path().filename().string()).body, bytes) << entry.path();
  }
  EXPECT_EQ(found, page_files().size());
}

TEST_F(ServerTest, AnswersThatAFileOfThePageIsTheSame) {
  start();
  const HttpReply first = call("GET", "/page/style.css");
  const std::string etag = first.headers.at("etag");
  EXPECT_THAT(etag, testing::MatchesRegex("\"[0-9a-f]{32}\""));
  for (const std::string& tags : {etag, "\"other\", W/" + etag, std::string("*")}) {
    const HttpReply same = call("GET", "/page/style.css", "", "If-None-Match: " + tags + "\r\n");
    EXPECT_EQ(same.status, 304) << tags;
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(same.headers.at("etag"), etag);
  }
  EXPECT_EQ(call("GET", "/page/style.css", "", "If-None-Match: \"other\"\r\n").body, first.body);
  EXPECT_NE(call("GET", "/").headers.at("etag"), etag);
}

TEST_F(ServerTest, HasNoFilesBesideThoseOfThePage) {
  start();
  for (const char* target : {"/page/none.js", "/page/", "/page/..%2Fserver.cc", "/page/a/main.js"})
    EXPECT_EQ(call("GET", target).status, 404) << target;
  EXPECT_EQ(call("POST", "/", "{}").status, 405);
}

}  // namespace
}  // namespace barge::test
