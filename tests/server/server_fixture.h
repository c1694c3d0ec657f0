#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "core/errors.h"
#include "server/server.h"
#include "tests/server/http_client.h"
#include "tests/support/fake_generator.h"
#include "tests/support/temp_directory.h"

namespace barge::test {

using nlohmann::json;

inline std::string line(const std::string& id, const json& extra = json::object()) {
  json body = {{"model", "m/x"}, {"messages", {{{"role", "user"}, {"content", "ask " + id}}}}};
  body.update(extra);
  return json{
             {"custom_id", id}, {"method", "POST"}, {"url", "/v1/chat/completions"}, {"body", body}}
             .dump() +
         "\n";
}

inline std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line("id-" + std::to_string(i));
  return text;
}

inline constexpr const char* kFormType = "Content-Type: multipart/form-data; boundary=XX\r\n";

inline std::string file_part(const std::string& bytes, const std::string& name = "in.jsonl") {
  return "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
         "\"\r\nContent-Type: application/octet-stream\r\n\r\n" + bytes + "\r\n";
}
inline std::string purpose_part(const std::string& purpose = "batch") {
  return "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose + "\r\n";
}
inline std::string form(const std::string& bytes) {
  return purpose_part() + file_part(bytes) + "--XX--\r\n";
}

/// A server on a free port, with a generator that has no model.
class ServerTest : public ::testing::Test {
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
  void serve() {
    server_->serve(
        {.generator = &generator_, .identity = identity_, .lookahead = {.least = 4, .most = 4}});
  }

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

  TempDirectory directory_;
  ServerOptions options_;
  Identity identity_ = {{"model", "abc"}};
  FakeGenerator generator_;
  std::optional<Server> server_;
};

}  // namespace barge::test
