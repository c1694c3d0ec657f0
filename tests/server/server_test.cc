#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "core/errors.h"
#include "tests/server/http_client.h"
#include "tests/support/fake_generator.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using nlohmann::json;
using test::HttpClient;
using test::HttpReply;
using testing::HasSubstr;

std::string line(const std::string& id, const json& extra = json::object()) {
  json body = {{"model", "m/x"}, {"messages", {{{"role", "user"}, {"content", "ask " + id}}}}};
  body.update(extra);
  return json{
             {"custom_id", id}, {"method", "POST"}, {"url", "/v1/chat/completions"}, {"body", body}}
             .dump() +
         "\n";
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line("id-" + std::to_string(i));
  return text;
}

constexpr const char* kFormType = "Content-Type: multipart/form-data; boundary=XX\r\n";

std::string file_part(const std::string& bytes, const std::string& name = "in.jsonl") {
  return "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
         "\"\r\nContent-Type: application/octet-stream\r\n\r\n" + bytes + "\r\n";
}
std::string purpose_part(const std::string& purpose = "batch") {
  return "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose + "\r\n";
}
std::string form(const std::string& bytes) {
  return purpose_part() + file_part(bytes) + "--XX--\r\n";
}

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    options_.port = 0;
    options_.data_dir = directory_ / "data";
    options_.served_model_name = "m/x";
  }

  void start(bool ready = true) {
    server_.emplace(options_);
    if (ready) serve();
  }
  void serve() { server_->serve({.generator = &generator_, .identity = identity_, .window = 4}); }

  HttpReply call(const std::string& method, const std::string& target, const std::string& body = "",
                 const std::string& headers = "") {
    return HttpClient(server_->port()).call(method, target, body, headers);
  }
  std::string upload(const std::string& bytes) {
    const HttpReply reply = call("POST", "/v1/files", form(bytes), kFormType);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json()["id"];
  }
  json create(const std::string& file) {
    const HttpReply reply = call("POST", "/v1/batches",
                                 json{{"input_file_id", file},
                                      {"endpoint", "/v1/chat/completions"},
                                      {"completion_window", "24h"}}
                                     .dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
  }
  // Polls as a client does.
  json wait_for(const std::string& id,
                const std::set<std::string>& statuses = {"completed", "failed"}) {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const json batch = call("GET", "/v1/batches/" + id).json();
      if (statuses.contains(batch["status"])) return batch;
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(60)) {
        ADD_FAILURE() << "not in time: " << batch;
        return batch;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  // Lines of a file by custom_id.
  std::map<std::string, json> download(const std::string& file) {
    std::map<std::string, json> found;
    std::istringstream text(call("GET", "/v1/files/" + file + "/content").body);
    for (std::string one; std::getline(text, one);) {
      const json parsed = json::parse(one);
      EXPECT_TRUE(found.emplace(parsed["custom_id"], parsed).second) << one;
    }
    return found;
  }

  test::TempDirectory directory_;
  ServerOptions options_;
  Identity identity_ = {{"model", "abc"}};
  test::FakeGenerator generator_;
  std::optional<Server> server_;
};

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

struct BadRequest {
  const char *method, *target, *headers, *body;
  int status;
  const char *param, *code;  // "": null
};

std::ostream& operator<<(std::ostream& out, const BadRequest& bad) {
  return out << bad.method << ' ' << bad.target << ' ' << bad.body;
}

class ServerRefuses : public ServerTest, public testing::WithParamInterface<BadRequest> {};

TEST_P(ServerRefuses, WithOpenAisErrorObject) {
  start();
  const BadRequest& bad = GetParam();
  HttpClient client(server_->port());
  const HttpReply reply = client.call(bad.method, bad.target, bad.body, bad.headers);
  EXPECT_EQ(reply.status, bad.status) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  EXPECT_TRUE(reply.headers.contains("x-request-id"));
  const json error = reply.json()["error"];
  EXPECT_EQ(error.size(), 4u);
  EXPECT_FALSE(error["message"].get<std::string>().empty());
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error.at("param"), *bad.param ? json(bad.param) : json());
  EXPECT_EQ(error.at("code"), *bad.code ? json(bad.code) : json());
  EXPECT_EQ(call("GET", "/health").status, 200);  // none the worse
}

INSTANTIATE_TEST_SUITE_P(
    Table, ServerRefuses,
    testing::Values(
        BadRequest{"GET", "/", "", "", 404, "", ""},
        BadRequest{"POST", "/v1/x", "", "{}", 404, "", ""},
        BadRequest{"GET", "/v1/files/file-1", "", "", 404, "id", ""},
        BadRequest{"GET", "/v1/files/file-1/content", "", "", 404, "id", ""},
        BadRequest{"GET", "/v1/batches/batch_1", "", "", 404, "", ""},
        BadRequest{"PUT", "/v1/files", "", "", 405, "", ""},
        BadRequest{"DELETE", "/health", "", "", 405, "", ""},
        BadRequest{"POST", "/v1/files", "Content-Type: application/json\r\n", "{}", 415, "", ""},
        BadRequest{"POST", "/v1/files", "", "", 415, "", ""},
        BadRequest{"POST", "/v1/files", "Content-Type: multipart/form-data\r\n", "{}", 400, "", ""},
        BadRequest{"POST", "/v1/files", kFormType, "nonsense", 400, "", ""},
        BadRequest{"POST", "/v1/files", kFormType, "--XX--", 400, "file",
                   "missing_required_parameter"},
        BadRequest{"POST", "/v1/files", kFormType,
                   "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--XX--", 400,
                   "purpose", "missing_required_parameter"},
        BadRequest{"POST", "/v1/files", kFormType,
                   "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n"
                   "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfun\r\n--XX--",
                   400, "purpose", "invalid_value"},
        BadRequest{"POST", "/v1/batches", "", "{nonsense", 400, "", ""},
        BadRequest{"POST", "/v1/batches", "", "", 400, "", ""},
        BadRequest{"POST", "/v1/batches", "", "[]", 400, "body", "invalid_type"},
        BadRequest{"POST", "/v1/batches", "", "{}", 400, "input_file_id",
                   "missing_required_parameter"},
        BadRequest{"POST", "/v1/batches", "", R"({"input_file_id":5})", 400, "input_file_id",
                   "invalid_type"},
        BadRequest{"GET", "/v1/batches?limit=101", "", "", 400, "limit", "integer_above_max_value"},
        BadRequest{"GET", "/v1/batches?limit=-1", "", "", 400, "limit", "integer_below_min_value"},
        BadRequest{"GET", "/v1/batches?limit=x", "", "", 400, "limit", "invalid_type"},
        BadRequest{"GET", "/v1/batches?after=batch_1", "", "", 404, "after", ""},
        BadRequest{"GET", "/v1/files?limit=0", "", "", 400, "limit", ""}));

TEST_F(ServerTest, ChecksEveryFieldOfABatch) {
  start();
  const json good = {
      {"input_file_id", "file-1"}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}};
  const auto refusal = [&](const json& change) {
    json body = good;
    body.update(change);
    const HttpReply reply = call("POST", "/v1/batches", body.dump());
    EXPECT_EQ(reply.status, 400) << reply.body;
    const json error = reply.json()["error"];
    return concat(error["param"].get<std::string>(), ' ', error["code"].get<std::string>());
  };
  EXPECT_EQ(refusal({{"endpoint", nullptr}}), "endpoint missing_required_parameter");
  EXPECT_EQ(refusal({{"endpoint", "/v1/embeddings"}}), "endpoint invalid_value");
  EXPECT_EQ(refusal({{"completion_window", "1h"}}), "completion_window invalid_value");
  EXPECT_EQ(refusal({{"metadata", 5}}), "metadata invalid_type");
  EXPECT_EQ(refusal({{"metadata", {{"tags", 5}}}}), "metadata.tags invalid_type");
  EXPECT_EQ(refusal({{"metadata", {{std::string(65, 'k'), "v"}}}}),
            "metadata string_above_max_length");
  EXPECT_EQ(refusal({{"metadata", {{"k", std::string(513, 'v')}}}}),
            "metadata.k string_above_max_length");
  json many;
  for (int i = 0; i < 17; ++i) many[std::to_string(i)] = "v";
  EXPECT_EQ(refusal({{"metadata", many}}), "metadata object_above_max_properties");
  json body = good;
  body["metadata"] = {{"k", "v"}};
  EXPECT_EQ(call("POST", "/v1/batches", body.dump()).json()["metadata"], body["metadata"]);
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

TEST_F(ServerTest, AsksForItsKey) {
  options_.api_key = "secret";
  start();
  EXPECT_EQ(call("GET", "/health").status, 200);
  EXPECT_EQ(call("GET", "/v1/models").status, 401);
  for (const char* key : {"", "secre", "secretsecret", "Secret"}) {
    const HttpReply reply =
        call("GET", "/v1/models", "", concat("Authorization: Bearer ", key, "\r\n"));
    EXPECT_EQ(reply.status, 401) << key;
    EXPECT_EQ(reply.json()["error"]["code"], "invalid_api_key");
  }
  EXPECT_EQ(call("POST", "/v1/files", form("x"), kFormType).status, 401);
  EXPECT_EQ(call("GET", "/v1/models", "", "Authorization: Bearer secret\r\n").status, 200);
}

TEST_F(ServerTest, SurvivesBrokenHttp) {
  start();
  for (const char* text :
       {"nonsense\r\n\r\n", "GET / HTTP/9\r\n\r\n", "GET /health HTTP/1.1\r\nbad header\r\n\r\n",
        "POST /v1/batches HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /v1/batches HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"}) {
    HttpClient client(server_->port());
    client.send(text);
    const HttpReply reply = client.receive();
    EXPECT_EQ(reply.status, 400) << text;
    EXPECT_TRUE(reply.json().contains("error"));
  }
  {
    HttpClient client(server_->port());
    client.send("GET /health HTTP/1.1\r\nX: " + std::string(100'000, 'x'));
    EXPECT_EQ(client.receive().status, 431);
  }
  {
    HttpClient client(server_->port());
    client.send("POST /v1/batches HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n");
    EXPECT_EQ(client.receive().status, 413);
  }
  {
    HttpClient client(server_->port());  // goes away in the middle of an upload
    client.send(
        concat("POST /v1/files HTTP/1.1\r\n", kFormType, "Content-Length: 5000\r\n\r\n--XX"));
  }
  HttpClient client(server_->port());
  EXPECT_EQ(client.call("HEAD", "/health").status, 405);
  EXPECT_EQ(client.call("GET", "/health").status, 200);  // the same connection
}

TEST_F(ServerTest, GoesOnWithItsBatchesAfterARestart) {
  std::string running, waiting;
  std::atomic<int> submitted{0};
  generator_.on_submit = [&](const std::string&) { ++submitted; };
  start(/*ready=*/false);
  running = create(upload(lines(200)))["id"];
  waiting = create(upload(lines(3)))["id"];
  serve();
  wait_for(running, {"in_progress", "completed"});
  server_.reset();  // stops with the sweep
  EXPECT_LT(submitted, 203);
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
  serve();
  wait_for(id, {"in_progress"});
  server_.reset();
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
  second.host = "256.1.1.1";
  EXPECT_THROW(Server{second}, IoError);
  test::write_file(directory_ / "file", "");
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
}  // namespace barge
