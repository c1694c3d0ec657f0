// What a client may take of the server: bytes, counts, connections and time.
#include <sys/resource.h>

#include <memory>
#include <vector>

#include "jobs/body_fields.h"
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr const char* kHead = "POST /v1/batches HTTP/1.1\r\nHost: localhost\r\n";

TEST_F(ServerTest, RefusesHeadersThatAreTooLargeOrTooMany) {
  start();
  const auto status_of = [&](const std::string& text) {
    HttpClient client(server_->port());
    client.send(text);
    return client.receive().status;
  };
  const std::string get = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  const auto fields = [&](std::size_t count) {
    std::string text = get;
    for (std::size_t i = 1; i < count; ++i) text += "X: y\r\n";
    return text + "\r\n";
  };
  const HttpLimits limits;
  EXPECT_EQ(status_of(fields(limits.max_fields)), 200);
  EXPECT_EQ(status_of(fields(limits.max_fields + 1)), 431);
  EXPECT_EQ(status_of(get + "X: " + std::string(limits.max_header_bytes - 60, 'x') + "\r\n\r\n"),
            200);
  EXPECT_EQ(status_of(get + "X: " + std::string(limits.max_header_bytes, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of(get + std::string(limits.max_header_bytes, 'x')), 431);  // no end in sight
  const auto target = [](std::size_t bytes) {
    return "GET /health?" + std::string(bytes - 8, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  };
  EXPECT_EQ(status_of(target(limits.max_target_bytes)), 200);
  EXPECT_EQ(status_of(target(limits.max_target_bytes + 1)), 414);
}

TEST_F(ServerTest, RefusesBodiesThatAreTooLargeHoweverTheyCome) {
  options_.limits.max_json_bytes = 1000;
  start();
  HttpClient client(server_->port());
  EXPECT_EQ(client.call("POST", "/v1/batches", std::string(1000, ' ')).status, 400);  // no JSON
  EXPECT_EQ(client.call("POST", "/v1/batches", std::string(1001, ' ')).status, 413);
  HttpClient chunked(server_->port());
  chunked.send(concat(kHead, "Transfer-Encoding: chunked\r\n\r\n"));
  for (int i = 0; i < 3; ++i) chunked.send("190\r\n" + std::string(400, ' ') + "\r\n");
  EXPECT_EQ(chunked.receive().status, 413);
}

TEST_F(ServerTest, HoldsOnlySoMuchOfAllBodiesTogether) {
  options_.limits.max_held_bytes = 3000;
  start();
  const std::string head = concat(kHead, "Content-Length: 2000\r\n\r\n");
  HttpClient first(server_->port());
  first.send(head + std::string(1900, ' '));
  int status = 400;
  for (int i = 0; i < 500 && status != 503; ++i) {  // until the first has been read
    HttpClient second(server_->port());
    second.send(head + std::string(2000, ' '));
    const HttpReply reply = second.receive();
    status = reply.status;
    EXPECT_EQ(reply.headers.contains("retry-after"), status == 503);
  }
  EXPECT_EQ(status, 503);
  first.send(std::string(100, ' '));
  EXPECT_EQ(first.receive().status, 400);  // it was read whole: not JSON
  EXPECT_EQ(call("POST", "/v1/batches", std::string(3000, ' ')).status, 400);
}

TEST_F(ServerTest, SurvivesJsonThatIsADepthBomb) {
  start();
  const auto nested = [](std::size_t depth) {
    return "{\"metadata\":" + std::string(depth, '[') + std::string(depth, ']') + '}';
  };
  for (const std::string& bomb :
       {nested(kMaxJsonDepth), nested(4'000'000), "{\"a\":" + std::string(8'000'000, '['), [] {
          std::string objects;
          for (int i = 0; i < 500'000; ++i) objects += "{\"a\":";
          return objects;
        }()}) {
    for (const char* target : {"/v1/batches", "/v1/chat/completions", "/tokenize"}) {
      const HttpReply reply = call("POST", target, bomb);
      EXPECT_EQ(reply.status, 400);
      EXPECT_THAT(reply.body, HasSubstr("nests deeper than 100 levels"));
    }
    const json batch = wait_for(create(upload(bomb + '\n'))["id"]);
    EXPECT_EQ(batch["status"], "failed");
    EXPECT_EQ(batch["errors"]["data"][0]["code"], "invalid_json_line");
    EXPECT_THAT(batch["errors"]["data"][0]["message"], HasSubstr("nests deeper"));
  }
}

TEST_F(ServerTest, SurvivesJsonOfMillionsOfValues) {
  start();
  std::string bomb = "{\"prompt\":[[]";
  for (std::size_t i = 0; i < kMaxJsonValues / 2; ++i) bomb += ",[]";
  bomb += "]}";
  const HttpReply reply = call("POST", "/v1/completions", bomb);
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("has more than 1000000 values"));
  const json batch = wait_for(create(upload(bomb + '\n'))["id"]);
  EXPECT_THAT(batch["errors"]["data"][0]["message"], HasSubstr("more than 1000000 values"));
  const std::string text(4'000'000, ',');  // commas in a text are none
  EXPECT_THAT(call("POST", "/v1/batches", json{{"endpoint", text}}.dump()).body,
              HasSubstr("input_file_id"));
}

TEST_F(ServerTest, AsksForABodyOnlyIfItWillReadIt) {
  options_.api_keys = {"secret"};
  start();
  const auto begin = [&](const std::string& target, const std::string& headers) {
    auto client = std::make_unique<HttpClient>(server_->port());
    client->send("POST " + target + " HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" +
                 headers + "\r\n");
    return client;
  };
  const std::string key = "Authorization: Bearer secret\r\n";
  const std::string form_type = kFormType;
  for (const char* target : {"/v1/batches", "/v1/chat/completions", "/v1/files", "/tokenize"}) {
    const std::string length = "Content-Length: 2\r\n" + form_type;
    EXPECT_EQ(begin(target, length)->receive().status, 401) << target;
    EXPECT_EQ(begin(target, length + "Authorization: Bearer other\r\n")->receive().status, 401);
    EXPECT_EQ(begin(target, form_type + key + "Content-Length: 300000000\r\n")->receive().status,
              413)
        << target;
  }
  const auto client = begin("/v1/batches", key + "Content-Length: 2\r\n");
  EXPECT_EQ(client->receive(false).status, 100);
  client->send("{}");
  EXPECT_EQ(client->receive().status, 400);
  EXPECT_EQ(client->call("GET", "/health").status, 200);
  const auto chunked = begin("/v1/files", key + form_type + "Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(chunked->receive(false).status, 100);
  for (const char c : form(lines(2))) chunked->send(concat("1\r\n", c, "\r\n"));
  chunked->send("0\r\n\r\n");
  EXPECT_EQ(chunked->receive().status, 200);
}

TEST_F(ServerTest, DrainsAnUploadOf300Megabytes) {
  start();
  const std::string piece(1'000'000, 'x');
  HttpClient client(server_->port());
  client.send(concat("POST /v1/files HTTP/1.1\r\nHost: localhost\r\n", kFormType,
                     "Content-Length: 300000000\r\n\r\n"));
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(client.send(piece)) << "cut off after " << i << " MB";
  const HttpReply reply = client.receive();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.json()["error"]["code"], "file_too_large");
  EXPECT_TRUE(client.is_over());
}

TEST_F(ServerTest, DrainsAChunkedUploadUpToItsLimit) {
  options_.max_file_bytes = 1 << 20;
  options_.limits.max_drain_bytes = 100 << 20;
  start();
  const std::string chunk = "f4240\r\n" + std::string(1'000'000, 'x') + "\r\n";
  const auto begin = [&](HttpClient& client) {
    client.send(concat("POST /v1/files HTTP/1.1\r\nHost: localhost\r\n", kFormType,
                       "Transfer-Encoding: chunked\r\n\r\n"));
    const std::string head = purpose_part() +
                             "--XX\r\nContent-Disposition: form-data; "
                             "name=\"file\"; filename=\"f\"\r\n\r\n";
    std::ostringstream size;
    size << std::hex << head.size();
    client.send(size.str() + "\r\n" + head + "\r\n");
  };
  HttpClient client(server_->port());
  begin(client);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(client.send(chunk)) << "cut off after " << i << " MB";
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.receive().status, 413);
  HttpClient endless(server_->port());
  begin(endless);
  int sent = 0;
  while (sent < 1000 && endless.send(chunk)) ++sent;
  EXPECT_GE(sent, 100);
  EXPECT_LT(sent, 200);  // what the sockets hold comes on top
}

TEST_F(ServerTest, ServesAQuickClientBeside24SlowOnes) {
  start();
  const std::string body = json{{"model", "m/x"}, {"prompt", "hello"}}.dump();
  const std::string requests[] = {
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
      concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(),
             "\r\n\r\n", body),
      concat("POST /v1/files HTTP/1.1\r\nHost: localhost\r\n", kFormType,
             "Content-Length: ", form(lines(9)).size(), "\r\n\r\n", form(lines(9)))};
  std::vector<std::unique_ptr<HttpClient>> slow;
  std::vector<std::size_t> sent(24);
  const auto send_some = [&](std::size_t i, std::size_t bytes) {
    const std::string& text = requests[i % 3];
    slow[i]->send(text.substr(sent[i], bytes));
    sent[i] = std::min(text.size(), sent[i] + bytes);
  };
  for (std::size_t i = 0; i < sent.size(); ++i) {
    slow.push_back(std::make_unique<HttpClient>(server_->port()));
    send_some(i, requests[i % 3].size() / 2);
  }
  HttpClient quick(server_->port());
  std::chrono::steady_clock::duration longest{};
  for (int round = 0; round < 40; ++round) {
    for (std::size_t i = 0; i < sent.size(); ++i) send_some(i, 1);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(quick.call("GET", "/v1/models").status, 200);
    EXPECT_EQ(quick.call("POST", "/v1/completions", body).status, 200);
    longest = std::max(longest, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_LT(longest, 5s);  // on a machine that does much else; alone it is milliseconds
  for (std::size_t i = 0; i < sent.size(); ++i) {
    send_some(i, 1 << 20);
    EXPECT_EQ(slow[i]->receive().status, 200) << i;
  }
}

TEST_F(ServerTest, HoldsAThousandConnections) {
  start();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2100) GTEST_SKIP() << "only " << files.rlim_cur << " files may be open";
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    ASSERT_EQ(clients.back()->call("GET", "/health").status, 200) << i;
  }
  for (const auto& client : clients) ASSERT_EQ(client->call("GET", "/v1/models").status, 200);
}

TEST_F(ServerTest, RefusesConnectionsBeyondItsLimit) {
  options_.limits.max_connections = 2;
  start();
  HttpClient first(server_->port());
  EXPECT_EQ(first.call("GET", "/health").status, 200);
  {
    HttpClient second(server_->port());
    EXPECT_EQ(second.call("GET", "/health").status, 200);
    for (int i = 0; i < 200; ++i) {
      HttpClient more(server_->port());
      const HttpReply reply = more.call("GET", "/health");
      if (reply.status == 0) continue;  // too many refusals at once: closed
      ASSERT_EQ(reply.status, 503);
      EXPECT_EQ(reply.headers.at("retry-after"), "5");
      EXPECT_EQ(reply.headers.at("connection"), "close");
      EXPECT_TRUE(reply.headers.contains("x-request-id"));
      EXPECT_THAT(reply.body, HasSubstr("2 connections already"));
    }
    EXPECT_EQ(second.call("GET", "/health").status, 200);
  }
  int status = 0;
  for (int i = 0; i < 500 && status != 200; ++i) {
    if (i > 0) std::this_thread::sleep_for(10ms);
    status = call("GET", "/health").status;
  }
  EXPECT_EQ(status, 200);
  EXPECT_EQ(first.call("GET", "/health").status, 200);
}

class SlowClients : public ServerTest {
 protected:
  SlowClients() {
    options_.limits.idle_timeout = options_.limits.header_timeout = 1000ms;
    options_.limits.pace_time = 1000ms;
    options_.limits.pace_bytes = 1000;
    start();
  }
  // A client that sends `text`, and then a byte now and then.
  void add(const std::string& text) {
    clients_.push_back(std::make_unique<HttpClient>(server_->port()));
    clients_.back()->send(text);
  }
  // How many the server leaves alone for five seconds.
  std::size_t drip() {
    for (int i = 0; i < 50 && !clients_.empty(); ++i) {
      std::erase_if(clients_, [](const auto& client) { return !client->send("x"); });
      std::this_thread::sleep_for(100ms);
    }
    return clients_.size();
  }

 private:
  std::vector<std::unique_ptr<HttpClient>> clients_;
};

TEST_F(SlowClients, AreEndedWhileIdle) {
  HttpClient client(server_->port()), used(server_->port());
  EXPECT_EQ(used.call("GET", "/health").status, 200);
  EXPECT_TRUE(client.is_over());
  EXPECT_TRUE(used.is_over());
}

TEST_F(SlowClients, AreEndedWhileTheyDripHeaders) {
  add("GET /health HTTP/1.1\r\nX: ");
  add("GET /");
  EXPECT_EQ(drip(), 0u);
}

TEST_F(SlowClients, AreEndedWhileTheyDripABody) {
  for (const char* headers :
       {"Content-Length: 9999\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nfff\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5;"}) {
    add(concat(kHead, headers));
    add(concat("POST /v1/files HTTP/1.1\r\nHost: localhost\r\n", kFormType, headers));
  }
  EXPECT_EQ(drip(), 0u);
}

TEST_F(SlowClients, AreEndedWhileTheyDoNotReadAnAnswer) {
  const std::string file = upload(std::string(40'000'000, 'x'));
  HttpClient client(server_->port());
  client.send("GET /v1/files/" + file + "/content HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::this_thread::sleep_for(3000ms);
  EXPECT_THROW(client.receive(), std::runtime_error);  // cut off
}

TEST_F(SlowClients, AreServedAsLongAsTheyMoveOn) {
  server_.reset();
  options_.limits.pace_time = 2000ms;
  start();
  HttpClient client(server_->port());
  const std::string body(4800, ' ');
  client.send(concat(kHead, "Content-Length: ", body.size(), "\r\n\r\n"));
  for (std::size_t at = 0; at < body.size(); at += 160) {
    ASSERT_TRUE(client.send(body.substr(at, 160)));
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(client.receive().status, 400);  // after three seconds, read whole: not JSON
}

}  // namespace
}  // namespace barge::test
