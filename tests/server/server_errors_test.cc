#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

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
        BadRequest{"GET", "/none", "", "", 404, "", ""},
        BadRequest{"POST", "/v1/x", "", "{}", 404, "", ""},
        BadRequest{"GET", "/v1/files/file-1", "", "", 404, "id", ""},
        BadRequest{"GET", "/v1/files/file-1/content", "", "", 404, "id", ""},
        BadRequest{"GET", "/v1/batches/batch_1", "", "", 404, "", ""},
        BadRequest{"PUT", "/v1/files", "", "", 405, "", ""},
        BadRequest{"DELETE", "/health", "", "", 405, "", ""},
        BadRequest{"POST", "/v1/files", "Content-Type: application/json\r\n", "{}", 415, "", ""},
        BadRequest{"POST", "/v1/files", "Content-Type: text/plain\r\n", "x", 415, "", ""},
        BadRequest{"POST", "/v1/files/", "Content-Type: text/plain\r\n", "x", 415, "", ""},
        BadRequest{"POST", "/v1/files", "", "", 400, "file", "missing_required_parameter"},
        BadRequest{"POST", "/v1/completions/", "", "{}", 400, "prompt",
                   "missing_required_parameter"},
        BadRequest{"POST", "/v1/chat%2fcompletions", "", "{}", 404, "", ""},
        BadRequest{"DELETE", "/v1/files/file-1/content", "", "", 405, "", ""},
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
        BadRequest{"GET", "/v1/files?after=file-1", "", "", 404, "after", ""},
        BadRequest{"GET", "/v1/files?order=up", "", "", 400, "order", "invalid_value"},
        BadRequest{"GET", "/v1/files?limit=10001", "", "", 400, "limit", ""},
        BadRequest{"GET", "/v1/files?limit=0", "", "", 400, "limit", ""}));

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

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
  EXPECT_EQ(refusal({{"metadata", {{repeated("é", 65), "v"}}}}),
            "metadata string_above_max_length");
  json many;
  for (int i = 0; i < 17; ++i) many[std::to_string(i)] = "v";
  EXPECT_EQ(refusal({{"metadata", many}}), "metadata object_above_max_properties");
  json body = good;
  body["metadata"] = {{repeated("é", 64), repeated("€", 512)}};  // characters, not bytes
  EXPECT_EQ(call("POST", "/v1/batches", body.dump()).json()["metadata"], body["metadata"]);
}

TEST_F(ServerTest, AsksForItsKey) {
  options_.api_keys = {"other", "secret"};
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
    client.send("POST /v1/batches HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n");
    EXPECT_EQ(client.receive().status, 413);
  }
  {
    HttpClient client(server_->port());  // goes away in the middle of an upload
    client.send(concat("POST /v1/files HTTP/1.1\r\nHost: h\r\n", kFormType,
                       "Content-Length: 5000\r\n\r\n--XX"));
  }
  HttpClient client(server_->port());
  EXPECT_EQ(client.call("HEAD", "/health").status, 200);
  EXPECT_EQ(client.call("GET", "/health").status, 200);  // the same connection
}

TEST_F(ServerTest, AnswersHeadAsGetWithoutTheBody) {
  start();
  const std::string content = "/v1/files/" + upload("hello") + "/content";
  HttpClient client(server_->port());
  for (const std::string& target :
       {content, std::string("/v1/models"), std::string("/metrics"), std::string("/v1/files/none"),
        std::string("/tokenizer_info")}) {
    const HttpReply head = client.call("HEAD", target), get = client.call("GET", target);
    EXPECT_EQ(head.status, get.status) << target;
    EXPECT_EQ(head.headers.at("content-type"), get.headers.at("content-type")) << target;
    if (target == "/metrics") continue;  // which counts what came before
    EXPECT_EQ(head.headers.at("content-length"), get.headers.at("content-length")) << target;
  }
  EXPECT_EQ(client.call("HEAD", "/v1/completions").status, 405);
  EXPECT_EQ(client.call("DELETE", "/v1/batches").headers.at("allow"), "GET, HEAD, POST");
  EXPECT_EQ(client.call("GET", content, "", "Range: bytes=2-\r\n").body, "hello");  // all, with 200
}

}  // namespace
}  // namespace barge::test
