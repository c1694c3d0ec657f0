// Requests byte by byte as Node sends them with Node 20's fetch: recorded on a
// loopback socket, host and boundary shortened.
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

const std::string kHeaders =
    "host: 127.0.0.1:8000\r\n"
    "connection: keep-alive\r\n"
    "user-agent: OpenAI/JS 4.104.0\r\n"
    "x-stainless-retry-count: 0\r\n"
    "x-stainless-lang: js\r\n"
    "x-stainless-runtime: node\r\n"
    "authorization: Bearer none\r\n"
    "accept: application/json\r\n";
const std::string kMore =
    "accept-language: *\r\n"
    "sec-fetch-mode: cors\r\n"
    "accept-encoding: gzip, deflate\r\n";

const std::string kLine =
    R"({"custom_id":"é","method":"POST","url":"/v1/chat/completions","body":{"model":"m/x",)"
    R"("messages":[{"role":"user","content":"Grüße"}],"max_tokens":4}})"
    "\n";

std::string chunk(const std::string& bytes) {
  char length[20];
  std::snprintf(length, sizeof(length), "%zx\r\n", bytes.size());
  return length + bytes + "\r\n";
}

class NodeClient : public ServerTest {
 protected:
  void SetUp() override {
    start();
    client_.emplace(server_->port());
  }
  HttpReply send(const std::string& text) {
    EXPECT_TRUE(client_->send(text));
    return client_->receive();
  }
  std::optional<HttpClient> client_;  // one connection for all
};

// files.create of a file's stream: no length, the file before its purpose, a chunk for each header,
// each piece of the file and each line end.
TEST_F(NodeClient, UploadsAStreamInChunksAndRunsABatchOnOneConnection) {
  std::string upload =
      "POST /v1/files HTTP/1.1\r\n" + kHeaders +
      "content-type: multipart/form-data; boundary=form-data-boundary-w5xxqfwqbdpwnyjs\r\n" +
      kMore + "transfer-encoding: chunked\r\n\r\n";
  const std::string boundary = "--form-data-boundary-w5xxqfwqbdpwnyjs";
  upload += chunk(boundary +
                  "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
                  "Content-Type: application/octet-stream\r\n\r\n");
  for (std::size_t at = 0; at < kLine.size(); at += 100) upload += chunk(kLine.substr(at, 100));
  upload += chunk("\r\n");
  upload += chunk(boundary + "\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n");
  upload += chunk("batch") + chunk("\r\n") + chunk(boundary + "--\r\n\r\n") + "0\r\n\r\n";
  const HttpReply file = send(upload);
  ASSERT_EQ(file.status, 200) << file.body;
  EXPECT_EQ(file.headers.at("content-type"), "application/json");
  EXPECT_EQ(file.json()["filename"], "in.jsonl");
  EXPECT_EQ(file.json()["bytes"], kLine.size());

  const std::string body = json{
      {"input_file_id", file.json()["id"]},
      {"endpoint", "/v1/chat/completions"},
      {"completion_window",
       "24h"}}.dump();
  const HttpReply created =
      send("POST /v1/batches HTTP/1.1\r\n" + kHeaders + "content-type: application/json\r\n" +
           kMore + concat("content-length: ", body.size(), "\r\n\r\n") + body);
  ASSERT_EQ(created.status, 200) << created.body;
  const json batch = wait_for(created.json()["id"]);
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_TRUE(download(batch["output_file_id"]).contains("é"));

  // batches.cancel: a length of 0 and no type.
  const HttpReply cancelled =
      send("POST /v1/batches/" + batch["id"].get<std::string>() + "/cancel HTTP/1.1\r\n" +
           kHeaders + kMore + "content-length: 0\r\n\r\n");
  EXPECT_EQ(cancelled.status, 409);
  EXPECT_EQ(cancelled.headers.at("x-should-retry"), "false");

  const HttpReply model = send("GET /v1/models/m%2Fx HTTP/1.1\r\n" + kHeaders + kMore + "\r\n");
  EXPECT_EQ(model.json()["id"], "m/x");
}

// files.create of bytes in memory: a length, a name with a quote and a letter beyond ASCII.
TEST_F(NodeClient, UploadsAFormFromMemory) {
  const std::string boundary = "------formdata-undici-016499580482";
  const std::string form =
      boundary +
      "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in %22ü%22.jsonl\"\r\n"
      "Content-Type: application/octet-stream\r\n\r\n" +
      kLine + "\r\n" + boundary + "\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" +
      "batch\r\n" + boundary + "--\r\n";
  const HttpReply file =
      send("POST /v1/files HTTP/1.1\r\n" + kHeaders +
           "content-type: multipart/form-data; boundary=----formdata-undici-016499580482\r\n" +
           kMore + concat("content-length: ", form.size(), "\r\n\r\n") + form);
  ASSERT_EQ(file.status, 200) << file.body;
  EXPECT_EQ(file.json()["filename"], "in \"ü\".jsonl");
  EXPECT_EQ(file.json()["bytes"], kLine.size());
}

}  // namespace
}  // namespace barge::test
