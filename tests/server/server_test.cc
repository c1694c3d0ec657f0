#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::HasSubstr;

TEST_F(ServerTest, SaysWhetherItIsReady) {
  start(/*ready=*/false);
  const HttpReply loading = call("GET", "/health");
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(loading.json(), (json{{"status", "loading"}}));
  serve();
  const HttpReply reply = call("GET", "/health");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  EXPECT_THAT(reply.headers.at("x-request-id"), testing::StartsWith("req_"));
}

TEST_F(ServerTest, NamesItsModelAlsoPercentEncoded) {
  start();
  const json list = call("GET", "/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "m/x");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_TRUE(list["data"][0]["created"].is_number_integer());
  EXPECT_EQ(call("GET", "/v1/models/m%2Fx").json()["id"], "m/x");
  const HttpReply other = call("GET", "/v1/models/other");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.json()["error"]["code"], "model_not_found");
}

TEST_F(ServerTest, RunsABatchFromUploadToDownload) {
  start();
  const std::string file = upload(lines(23));
  const json created = create(file);
  EXPECT_EQ(created["object"], "batch");
  EXPECT_EQ(created["request_counts"], (json{{"total", 0}, {"completed", 0}, {"failed", 0}}));
  for (const char* key : {"errors", "output_file_id", "error_file_id", "completed_at", "expires_at",
                          "cancelled_at", "metadata", "usage"})
    EXPECT_TRUE(created.at(key).is_null()) << key;
  const json batch = wait_for(created["id"]);
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_EQ(batch["model"], "m/x");
  EXPECT_EQ(batch["request_counts"], (json{{"total", 23}, {"completed", 23}, {"failed", 0}}));
  EXPECT_TRUE(batch["error_file_id"].is_null());
  for (const char* key : {"in_progress_at", "finalizing_at", "completed_at"})
    EXPECT_TRUE(batch[key].is_number_integer()) << key;
  EXPECT_GT(batch["usage"]["output_tokens"], 0);
  const auto answers = download(batch["output_file_id"]);
  ASSERT_EQ(answers.size(), 23u);
  const json& body = answers.at("id-7")["response"]["body"];
  EXPECT_EQ(body["object"], "chat.completion");
  const json info = call("GET", "/v1/files/" + batch["output_file_id"].get<std::string>()).json();
  EXPECT_EQ(info["purpose"], "batch_output");
  EXPECT_EQ(info["status"], "processed");
}

TEST_F(ServerTest, PutsFailedLinesIntoTheErrorFile) {
  start();
  const json batch = wait_for(create(
      upload(line("good") + line("hot", {{"temperature", 9}}) +
             line("boom", {{"messages", {{{"role", "user"}, {"content", "EXPLODE"}}}}})))["id"]);
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_EQ(batch["request_counts"], (json{{"total", 3}, {"completed", 1}, {"failed", 2}}));
  EXPECT_EQ(download(batch["output_file_id"]).size(), 1u);
  const auto errors = download(batch["error_file_id"]);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors.at("hot")["response"]["status_code"], 400);
  EXPECT_EQ(errors.at("hot")["response"]["body"]["error"]["param"], "temperature");
  EXPECT_EQ(errors.at("boom")["response"]["status_code"], 500);
}

TEST_F(ServerTest, CompletesABatchWhoseEveryLineFailed) {
  start();
  const json batch = wait_for(create(upload(line("hot", {{"temperature", 9}})))["id"]);
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_TRUE(batch["output_file_id"].is_null());
  EXPECT_EQ(download(batch["error_file_id"]).size(), 1u);
}

TEST_F(ServerTest, FailsABatchWithABadLineBeforeAnythingRuns) {
  start();
  generator_.on_submit = [](const std::string& prompt) { FAIL() << prompt << " was run"; };
  const json batch =
      wait_for(create(upload(line("a") + "nonsense\n\n" + line("b", {{"model", "z"}})))["id"]);
  EXPECT_EQ(batch["status"], "failed");
  EXPECT_TRUE(batch["failed_at"].is_number_integer());
  EXPECT_EQ(batch["request_counts"]["total"], 0);
  const json& errors = batch["errors"]["data"];
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0]["line"], 2);
  EXPECT_EQ(errors[0]["code"], "invalid_json_line");
  EXPECT_EQ(errors[1]["line"], 4);
  EXPECT_EQ(errors[1]["code"], "model_not_found");
}

TEST_F(ServerTest, FailsABatchWhoseFileIsMissing) {
  start();
  const json batch = wait_for(create("../../etc/passwd")["id"]);
  EXPECT_EQ(batch["status"], "failed");
  EXPECT_EQ(batch["errors"]["data"][0]["param"], "file_id");
  EXPECT_THAT(batch["errors"]["data"][0]["message"].get<std::string>(),
              HasSubstr("Cannot find file ../../etc/passwd"));
}

TEST_F(ServerTest, TakesPartsInEitherOrderAndBothFramings) {
  start();
  const std::string bytes = lines(40);
  const std::string forms[] = {purpose_part() + file_part(bytes) + "--XX--\r\n",
                               file_part(bytes) + purpose_part() + "--XX--\r\n"};
  for (const std::string& body : forms) {
    HttpClient client(server_->port());
    json reply = client.call("POST", "/v1/files", body, kFormType).json();
    EXPECT_EQ(reply["bytes"], bytes.size());
    EXPECT_EQ(reply["filename"], "in.jsonl");
    EXPECT_EQ(client.call("GET", "/v1/files/" + reply["id"].get<std::string>() + "/content").body,
              bytes);
    // The same connection again, in chunks that cut boundaries and lines.
    std::string chunked = concat("POST /v1/files HTTP/1.1\r\nHost: h\r\n", kFormType,
                                 "Transfer-Encoding: chunked\r\n\r\n");
    for (std::size_t at = 0; at < body.size(); at += 37) {
      const std::string piece = body.substr(at, 37);
      chunked += concat(std::hex, piece.size(), std::dec, "\r\n", piece, "\r\n");
    }
    client.send(chunked + "0\r\n\r\n");
    reply = client.receive().json();
    EXPECT_EQ(reply["bytes"], bytes.size());
  }
}

TEST_F(ServerTest, AsksForABodyThatIsAnnounced) {
  start();
  HttpClient client(server_->port());
  const std::string body = form("x");
  client.send(concat("POST /v1/files HTTP/1.1\r\nHost: h\r\n", kFormType,
                     "Expect: 100-continue\r\nContent-Length: ", body.size(), "\r\n\r\n"));
  EXPECT_EQ(client.receive().status, 100);
  client.send(body);
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ServerTest, RefusesALargeFileBeforeItIsSentAndWhileItIsSent) {
  options_.max_file_bytes = 1000;
  start();
  {
    HttpClient client(server_->port());
    client.send(concat("POST /v1/files HTTP/1.1\r\nHost: h\r\n", kFormType,
                       "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"));
    EXPECT_EQ(client.receive().status, 413);
  }
  {
    HttpClient client(server_->port());  // sends all of it before it listens, as httpx does
    const std::string body = form(std::string(8'000'000, 'x'));
    EXPECT_TRUE(client.send(concat("POST /v1/files HTTP/1.1\r\nHost: h\r\n", kFormType,
                                   "Content-Length: ", body.size(), "\r\n\r\n")));
    EXPECT_TRUE(client.send(body));
    const HttpReply reply = client.receive();
    EXPECT_EQ(reply.status, 413);
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_TRUE(client.is_over());
  }
  const json files = call("GET", "/v1/files").json();
  EXPECT_EQ(files["data"].size(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(options_.data_dir / "uploads"));
  upload(std::string(1000, 'x'));
  EXPECT_EQ(call("POST", "/v1/files", form(std::string(1001, 'x')), kFormType).status, 413);
}

TEST_F(ServerTest, NeverUsesAUsersFileNameAsAPath) {
  start();
  for (const char* name : {"../../../evil", "/etc/passwd", "a\\..\\b.jsonl", "..", ""}) {
    const HttpReply reply =
        call("POST", "/v1/files", file_part("x", name) + purpose_part() + "--XX--", kFormType);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const std::string shown = reply.json()["filename"];
    EXPECT_EQ(shown.find_first_of("/\\"), std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(options_.data_dir / "files" /
                                        reply.json()["id"].get<std::string>()));
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "evil"));
  EXPECT_EQ(call("GET", "/v1/files/..%2f..%2fjobs.db/content").status, 404);
}

TEST_F(ServerTest, ListsPageByPage) {
  start(/*ready=*/false);
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(create("file-1")["id"]);
  std::vector<std::string> found;
  std::string after;
  for (bool more = true; more;) {
    const json list = call("GET", "/v1/batches?limit=2" + after).json();
    for (const json& batch : list["data"]) found.push_back(batch["id"]);
    EXPECT_EQ(list["last_id"], found.back());
    after = "&after=" + found.back();
    more = list["has_more"];
  }
  std::ranges::reverse(ids);
  EXPECT_EQ(found, ids);
  const json none = call("GET", "/v1/batches?limit=0").json();
  EXPECT_TRUE(none["data"].empty() && none["first_id"].is_null());
}

TEST_F(ServerTest, GoesOnWithItsBatchesAfterARestart) {
  std::string running, waiting;
  std::atomic<int> submitted{0};
  generator_.on_submit = [&](const std::string&) { ++submitted; };
  start(/*ready=*/false);
  running = create(upload(lines(200)))["id"];
  waiting = create(upload(lines(3)))["id"];
  generator_.pause_after(50);
  serve();
  const auto done = [&](const std::string& id) -> int {
    return call("GET", "/v1/batches/" + id).json()["request_counts"]["completed"];
  };
  while (done(running) + done(waiting) < 50) std::this_thread::yield();
  server_.reset();  // stops with the sweep
  EXPECT_LE(submitted, 54);
  generator_.resume();
  start();
  for (const auto& [id, count] : {std::pair(running, 200u), {waiting, 3u}}) {
    const json batch = wait_for(id);
    EXPECT_EQ(batch["status"], "completed");
    EXPECT_EQ(batch["request_counts"]["completed"], count);
    EXPECT_EQ(download(batch["output_file_id"]).size(), count);
  }
  EXPECT_LE(submitted, 203 + 4);  // only what was in flight ran twice
}

TEST_F(ServerTest, LeavesABatchAloneThatAnotherModelBegan) {
  start(/*ready=*/false);
  const std::string id = create(upload(lines(200)))["id"];
  generator_.pause_after(50);
  serve();
  wait_for(id, {"in_progress"});
  server_.reset();
  generator_.resume();
  identity_["model"] = "other";
  start();
  const std::string next = create(upload(lines(2)))["id"];
  EXPECT_EQ(wait_for(next)["status"], "completed");
  EXPECT_EQ(wait_for(id, {"in_progress"})["status"], "in_progress");
  server_.reset();
  identity_["model"] = "abc";
  start();
  EXPECT_EQ(wait_for(id)["request_counts"]["completed"], 200);
}

TEST_F(ServerTest, SaysWhyItCannotStart) {
  start();
  ServerOptions second = options_;
  second.data_dir = directory_ / "other";
  second.port = server_->port();
  EXPECT_THROW(Server{second}, IoError);
  second.port = 0;
  second.allow_anonymous = true;
  second.host = "256.1.1.1";
  EXPECT_THROW(Server{second}, IoError);
  write_file(directory_ / "file", "");
  second = options_;
  second.data_dir = directory_ / "file";
  EXPECT_THROW(Server{second}, IoError);
}

TEST_F(ServerTest, EndsItsWaitWhenItIsStopped) {
  start();
  std::thread waiter([&] { server_->wait(); });
  server_->stop();
  waiter.join();
}

}  // namespace
}  // namespace barge::test
