// Who may ask, under which names, and what can't be slipped past the server.
#include <filesystem>
#include <regex>
#include <set>

#include "server/data_directory.h"
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// All that an answer may have in its header.
void expect_known_headers(const HttpReply& reply) {
  static const std::set<std::string> kKnown = {"server",         "content-type", "x-request-id",
                                               "content-length", "connection",   "allow",
                                               "x-should-retry", "retry-after"};
  for (const auto& [name, value] : reply.headers) EXPECT_TRUE(kKnown.contains(name)) << name;
}

TEST_F(ServerTest, LetsNothingIntoTheHeadersOfItsAnswers) {
  start();
  const std::string evil = "%0d%0aX-Evil:%201%0d%0a%0d%0a%00";
  for (const std::string& target :
       {"/v1/files/file-1" + evil, "/v1/files/" + evil + "/content", "/v1/batches/" + evil,
        "/v1/batches?after=" + evil, "/v1/files?order=" + evil, "/v1/files?purpose=" + evil,
        "/v1/models/" + evil, "/" + evil, "/v1/files?limit=" + evil}) {
    for (const char* method : {"GET", "POST", "DELETE", "PUT"}) {
      HttpClient client(server_->port());
      const HttpReply reply = client.call(method, target, "", "X-Request-Id: mine\r\n");
      EXPECT_NE(reply.status, 0) << target;
      expect_known_headers(reply);
      EXPECT_THAT(reply.headers.at("x-request-id"), testing::StartsWith("req_"));
      EXPECT_EQ(client.call("GET", "/health").status, 200);  // nothing is left over
    }
  }
  const std::string body =
      purpose_part() + file_part("x", "a\r\nX-Evil: 1\r\n\r\nb%0d%0aX-Evil: 1") + "--XX--\r\n";
  const HttpReply reply = call("POST", "/v1/files", body, kFormType);
  expect_known_headers(reply);
  expect_known_headers(
      call("POST", "/v1/batches", R"({"input_file_id":"a\r\nX-Evil: 1","endpoint":"\r\n\r\n"})"));
}

TEST_F(ServerTest, MakesNoPathsOfNames) {
  start();
  const auto data = options_.data_dir;
  write_file(data / "files" / "secret", "not for you");
  const std::pair<std::string, std::string> names[] = {
      {"../../../etc/passwd", "passwd"},
      {"/etc/passwd", "passwd"},
      {"..\\\\..\\\\boot.ini", "boot.ini"},
      {"..", "upload"},
      {"a/..", "upload"},
      {"", "upload"},
      {"..%2f..%2fx", "..%2f..%2fx"},
      {"jobs.db", "jobs.db"},
      {std::string(300, 'n'), std::string(255, 'n')}};
  for (const auto& [sent, shown] : names) {
    const HttpReply reply =
        call("POST", "/v1/files", purpose_part() + file_part("x", sent) + "--XX--\r\n", kFormType);
    ASSERT_EQ(reply.status, 200) << sent << ' ' << reply.body;
    EXPECT_EQ(reply.json()["filename"], shown);
  }
  std::size_t num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ / "")) {
    const std::string path = std::filesystem::relative(entry.path(), data).string();
    static const std::regex kOwn(
        "\\.|files|partial|uploads|jobs\\.db(-wal|-shm)?|files/secret|"
        "files/file-[0-9a-f]{24}|[a-z.]*lock");
    EXPECT_TRUE(std::regex_match(path, kOwn)) << path;
    num_files += path.starts_with("files/file-");
  }
  EXPECT_EQ(num_files, std::size(names));
  for (const char* target :
       {"/v1/files/secret/content", "/v1/files/..%2fjobs.db/content",
        "/v1/files/../jobs.db/content", "/v1/files/%2e%2e/content",
        "/v1/files/%2Fetc%2Fpasswd/content", "/../../etc/passwd",
        "/v1/files/..%2f..%2f..%2f..%2fetc%2fpasswd/content", "/v1/files/file-1%00/content"})
    EXPECT_EQ(call("GET", target).status, 404) << target;
  EXPECT_EQ(call("DELETE", "/v1/files/secret").status, 404);
  EXPECT_TRUE(std::filesystem::exists(data / "files" / "secret"));
  const std::string input = "../files/secret";
  EXPECT_EQ(wait_for(create(input)["id"])["errors"]["data"][0]["param"], "file_id");
}

TEST_F(ServerTest, GivesPagesOfOtherSitesNothing) {
  start();
  const std::string origin = "Origin: https://evil.example\r\n";
  const auto expect_no_word = [](const HttpReply& reply) {
    for (const auto& [name, value] : reply.headers)
      EXPECT_THAT(name, Not(HasSubstr("access-control")));
  };
  const HttpReply got = call("GET", "/v1/models", "", origin);
  EXPECT_EQ(got.status, 200);  // which the browser keeps from the page
  expect_no_word(got);
  const HttpReply preflight = call("OPTIONS", "/v1/batches", "",
                                   origin +
                                       "Access-Control-Request-Method: POST\r\n"
                                       "Access-Control-Request-Headers: authorization\r\n");
  EXPECT_EQ(preflight.status, 405);
  expect_no_word(preflight);
  // What browsers send without asking first.
  for (const std::string& headers :
       {origin, std::string("Origin: null\r\n"), std::string("Sec-Fetch-Site: cross-site\r\n"),
        std::string("Sec-Fetch-Site: same-site\r\n"), std::string("Origin: http://h:1\r\n")}) {
    const HttpReply reply = call("POST", "/v1/batches", "{}", headers);
    EXPECT_EQ(reply.status, 403) << headers;
    EXPECT_THAT(reply.body, HasSubstr("other sites"));
    expect_no_word(reply);
  }
  // The server's own page; "h" is the Host that these tests ask for.
  for (const char* headers :
       {"Origin: http://h\r\n", "Sec-Fetch-Site: same-origin\r\nOrigin: http://h\r\n",
        "Sec-Fetch-Site: none\r\n"})
    EXPECT_EQ(call("POST", "/v1/batches", "{}", headers).status, 400) << headers;
}

TEST_F(ServerTest, AnswersToNamesOfItsOwnMachineWhileItAsksForNoKey) {
  const auto status_for = [&](const std::string& host) {
    HttpClient client(server_->port());
    client.send("GET /v1/models HTTP/1.1\r\nHost: " + host +
                "\r\nAuthorization: Bearer secret\r\n\r\n");
    return client.receive().status;
  };
  start();
  for (const char* host : {"localhost:8000", "LOCALHOST", "127.0.0.1:8000", "[::1]:8000", "barge",
                           "10.1.2.3", "a.localhost:1"})
    EXPECT_EQ(status_for(host), 200) << host;
  for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example",
                           "127.0.0.1.evil.example", "[evil.example]:8000"})
    EXPECT_EQ(status_for(host), 403) << host;
  server_.reset();
  options_.api_keys = {"secret"};
  start();
  EXPECT_EQ(status_for("barge.example"), 200);
  server_.reset();
  options_.api_keys.clear();
  options_.allow_anonymous = true;
  start();
  EXPECT_EQ(status_for("barge.example"), 200);
}

}  // namespace
}  // namespace barge::test
