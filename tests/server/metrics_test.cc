#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(ServerTest, SaysInMetricsWhatItDid) {
  start(/*ready=*/false);
  EXPECT_THAT(call("GET", "/metrics").body, Not(HasSubstr("num_requests_running")));
  EngineNumbers numbers{.kv_capacity_bytes = {.host = 300, .disk = 100},
                        .sweep_seconds = 5,
                        .predicted_sweep_seconds = 4};
  numbers.capacity_bytes.host = 4096;
  numbers.used_bytes.disk = 512;
  numbers.stats.running = 7;
  numbers.stats.generated_tokens = 40;
  numbers.stats.kv_bytes.host = 100;
  numbers.stats.disk.read_bytes = 1234;
  numbers.stats.compute_waits["weights"] = 2.5;
  server_->serve(
      {.generator = &generator_, .identity = identity_, .numbers = [=] { return numbers; }});
  wait_for(create(upload(lines(5) + line("hot", {{"temperature", 9}})))["id"]);
  const std::string chat = json{
      {"messages", {{{"role", "user"}, {"content", "hi"}}}},
      {"n", 2},
      {"max_tokens", 3}}.dump();
  for (const bool stream : {true, false}) {
    json body = json::parse(chat);
    body["stream"] = stream;
    EXPECT_EQ(call("POST", "/v1/chat/completions", body.dump()).status, 200);
  }
  const HttpReply reply = call("GET", "/metrics");
  EXPECT_THAT(reply.headers.at("content-type"), HasSubstr("text/plain; version=0.0.4"));
  const auto has = [&](const std::string& name, const std::string& labels,
                       const std::string& value) {
    const std::string all = "{model_name=\"m/x\"" + (labels.empty() ? "" : "," + labels) + "} ";
    EXPECT_THAT(reply.body, HasSubstr("\nbarge:" + name + all + value + "\n"));
  };
  has("num_requests_running", "", "7");
  has("kv_cache_usage_perc", "", "0.25");
  has("tier_capacity_bytes", R"(tier="host")", "4096");
  has("tier_capacity_bytes", R"(tier="device")", "0");
  has("tier_used_bytes", R"(tier="disk")", "512");
  has("generation_tokens_per_second", R"(source="actual")", "8");
  has("generation_tokens_per_second", R"(source="predicted")", "10");
  has("transferred_bytes_total", R"(tier="disk",direction="read")", "1234");
  has("stall_seconds_total", R"(who="compute",waits_for="weights")", "2.5");
  has("batch_lines_total", R"(result="completed")", "5");
  has("batch_lines_total", R"(result="failed")", "1");
  has("request_success_total", R"(finished_reason="length")", "4");
  has("e2e_request_latency_seconds_count", "", "2");
  EXPECT_THAT(reply.body, HasSubstr("http_requests_total{model_name=\"m/x\",status=\"200\"} "));
}

TEST_F(ServerTest, GivesMetricsToThoseWithItsKeyAndReadinessToAll) {
  options_.api_keys = {"other", "secret"};
  start();
  EXPECT_EQ(call("GET", "/ready").status, 200);
  EXPECT_EQ(call("GET", "/metrics").status, 401);
  EXPECT_EQ(call("GET", "/metrics", "", "Authorization: Bearer secret\r\n").status, 200);
}

}  // namespace
}  // namespace barge::test
