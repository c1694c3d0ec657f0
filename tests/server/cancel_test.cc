#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

class CancelTest : public ServerTest {
 protected:
  HttpReply cancel(const std::string& id) { return call("POST", "/v1/batches/" + id + "/cancel"); }
  json ended(const std::string& id) { return wait_for(id, {"cancelled", "completed", "failed"}); }
  void wait_until_done(const std::string& id, int count) {
    const auto begin = std::chrono::steady_clock::now();
    while (call("GET", "/v1/batches/" + id).json()["request_counts"]["completed"] < count)
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  // All lines of both files; each custom_id is there once.
  void expect_each_once(const json& batch, std::size_t answers, std::size_t errors) {
    const auto good = download(batch["output_file_id"]);
    const auto bad = download(batch["error_file_id"]);
    EXPECT_EQ(good.size(), answers);
    EXPECT_EQ(bad.size(), errors);
    for (const auto& [id, one] : bad) {
      EXPECT_FALSE(good.contains(id));
      EXPECT_EQ(one["error"]["code"], "batch_cancelled");
      EXPECT_TRUE(one.at("response").is_null());
    }
  }
};

TEST_F(CancelTest, KeepsWhatIsFinishedAndAnswersEachOtherLineWithAnError) {
  start();
  generator_.pause_after(50);
  const std::string id = create(upload(lines(200)))["id"];
  wait_until_done(id, 50);
  const HttpReply reply = cancel(id);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json()["status"], "cancelling");
  EXPECT_TRUE(reply.json()["cancelling_at"].is_number_integer());
  const json batch = ended(id);
  EXPECT_EQ(batch["status"], "cancelled");
  EXPECT_TRUE(batch["cancelled_at"].is_number_integer());
  EXPECT_TRUE(batch["completed_at"].is_null());
  EXPECT_EQ(batch["request_counts"], (json{{"total", 200}, {"completed", 50}, {"failed", 0}}));
  EXPECT_GT(batch["usage"]["output_tokens"], 0);
  expect_each_once(batch, 50, 150);
  EXPECT_EQ(generator_.num_waiting(), 0u);
}

TEST_F(CancelTest, EndsABatchThatWaitsBehindOthers) {
  start();
  generator_.pause_after(0);
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(create(upload(lines(9)))["id"]);
  cancel(ids.back());
  const json batch = ended(ids.back());
  EXPECT_EQ(batch["status"], "cancelled");
  EXPECT_EQ(batch["request_counts"]["total"], 9);
  EXPECT_EQ(download(batch["error_file_id"]).size(), 9u);
  EXPECT_TRUE(batch["output_file_id"].is_null());
  generator_.resume();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ended(ids[i])["status"], "completed");
}

TEST_F(CancelTest, IsCarriedOutAfterARestart) {
  start();
  generator_.pause_after(10);
  const std::string running = create(upload(lines(30)))["id"];
  wait_until_done(running, 10);
  server_.reset();
  start(/*ready=*/false);
  const std::string unseen = create(upload(lines(3)))["id"];
  const std::string hopeless = create(upload("nonsense"))["id"];
  for (const std::string& id : {running, unseen, hopeless})
    EXPECT_EQ(cancel(id).json()["status"], "cancelling");
  server_.reset();
  start();
  expect_each_once(ended(running), 10, 20);
  EXPECT_EQ(download(ended(unseen)["error_file_id"]).size(), 3u);
  const json batch = ended(hopeless);
  EXPECT_EQ(batch["status"], "cancelled");
  EXPECT_TRUE(batch["error_file_id"].is_null());
}

TEST_F(CancelTest, SaysWhichBatchesItComesTooLateFor) {
  start();
  const std::string done = create(upload(lines(2)))["id"], bad = create(upload("nonsense"))["id"];
  for (const std::string& id : {done, bad}) {
    const json batch = ended(id);
    const HttpReply reply = cancel(id);
    EXPECT_EQ(reply.status, 409);
    EXPECT_EQ(reply.headers.at("x-should-retry"), "false");
    EXPECT_EQ(reply.json()["error"]["message"], concat("Cannot cancel a batch with status '",
                                                       batch["status"].get<std::string>(), "'."));
  }
  generator_.pause_after(0);
  const std::string id = create(upload(lines(2)))["id"];
  cancel(id);
  const json batch = ended(id);
  EXPECT_EQ(cancel(id).status, 200);
  EXPECT_EQ(cancel(id).json(), batch);
  EXPECT_EQ(cancel("batch_none").status, 404);
}

TEST_F(ServerTest, LetsASmallBatchFinishBesideALargeOne) {
  generator_.before_done = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  start();
  const std::string large = create(upload(lines(3000)))["id"];
  wait_for(large, {"in_progress"});
  const std::string small = create(upload(lines(5)))["id"];
  EXPECT_EQ(wait_for(small)["status"], "completed");
  EXPECT_EQ(call("GET", "/v1/batches/" + large).json()["status"], "in_progress");
}

TEST_F(ServerTest, DeletesAFileThatNobodyReads) {
  start();
  generator_.pause_after(0);
  const std::string file = upload(lines(3));
  const std::string batch = create(file)["id"];
  const HttpReply refused = call("DELETE", "/v1/files/" + file);
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.headers.at("x-should-retry"), "false");
  generator_.resume();
  wait_for(batch);
  EXPECT_EQ(call("DELETE", "/v1/files/" + file).json(),
            (json{{"id", file}, {"object", "file"}, {"deleted", true}}));
  EXPECT_EQ(call("GET", "/v1/files/" + file).status, 404);
  EXPECT_EQ(call("DELETE", "/v1/files/" + file).status, 404);
  EXPECT_FALSE(std::filesystem::exists(options_.data_dir / "files" / file));
  EXPECT_EQ(call("GET", "/v1/files?order=up").status, 400);
}

}  // namespace
}  // namespace barge::test
