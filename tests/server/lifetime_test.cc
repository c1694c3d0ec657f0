#include <atomic>
#include <filesystem>

#include "server/batch_worker.h"
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::int64_t kDay = 24 * 60 * 60;

// A server whose time stands still until a test moves it.
class LifetimeTest : public ServerTest {
 protected:
  LifetimeTest() {
    options_.now = [this] { return now_.load(); };
    options_.housekeeping_every = std::chrono::milliseconds(2);
  }

  HttpReply upload_with(const std::string& fields, const std::string& bytes = "x\n") {
    return call("POST", "/v1/files", fields + purpose_part() + file_part(bytes) + "--XX--\r\n",
                kFormType);
  }
  static std::string field(const std::string& name, const std::string& value) {
    return "--XX\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
  }
  static std::string expires_after(const std::string& seconds) {
    return field("expires_after[anchor]", "created_at") + field("expires_after[seconds]", seconds);
  }
  json create_with(const std::string& file, const json& extra) {
    json body = {{"input_file_id", file},
                 {"endpoint", "/v1/chat/completions"},
                 {"completion_window", "24h"}};
    body.update(extra);
    return call("POST", "/v1/batches", body.dump()).json();
  }
  bool exists(const std::string& file) { return call("GET", "/v1/files/" + file).status == 200; }
  void wait_until_gone(const std::string& file) {
    const auto begin = std::chrono::steady_clock::now();
    while (exists(file) || fs::exists(options_.data_dir / "files" / file))
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << file;
  }
  // Housekeeping has looked at everything since: it removes this file.
  void wait_for_a_round() {
    const std::string file = upload_with(expires_after("3600")).json()["id"];
    now_ += 3600;
    wait_until_gone(file);
  }
  void wait_until_done(const std::string& id, int count) {
    const auto begin = std::chrono::steady_clock::now();
    while (call("GET", "/v1/batches/" + id).json()["request_counts"]["completed"] < count)
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
  void expect_expired(const json& batch, std::size_t answers, std::size_t errors) {
    EXPECT_EQ(batch["status"], "expired");
    EXPECT_TRUE(batch["completed_at"].is_null());
    EXPECT_EQ(batch["request_counts"],
              (json{{"total", answers + errors}, {"completed", answers}, {"failed", 0}}));
    const auto bad = download(batch["error_file_id"]);
    EXPECT_EQ(bad.size(), errors);
    for (const auto& [id, one] : bad) {
      EXPECT_EQ(one["error"]["code"], "batch_expired");
      EXPECT_TRUE(one.at("response").is_null());
    }
    if (answers == 0) {
      EXPECT_TRUE(batch["output_file_id"].is_null());
      return;
    }
    const auto good = download(batch["output_file_id"]);
    EXPECT_EQ(good.size(), answers);
    for (const auto& [id, one] : good) EXPECT_FALSE(bad.contains(id)) << id;
  }

  std::atomic<std::int64_t> now_ = 1'800'000'000;
};

TEST_F(LifetimeTest, EndsABatchAtItsTimeAndKeepsWhatIsFinished) {
  options_.batch_expiry_seconds = kDay;
  start();
  generator_.pause_after(50);
  const json created = create(upload(lines(200)));
  const std::string id = created["id"];
  EXPECT_EQ(created["created_at"], now_.load());
  EXPECT_EQ(created["expires_at"], now_ + kDay);
  wait_until_done(id, 50);
  now_ += kDay - 3601;
  wait_for_a_round();
  EXPECT_EQ(call("GET", "/v1/batches/" + id).json()["status"], "in_progress");
  now_ += 1;
  const json batch = wait_for(id, {"expired", "completed"});
  EXPECT_EQ(batch["expired_at"], now_.load());
  EXPECT_GT(batch["usage"]["output_tokens"], 0);
  expect_expired(batch, 50, 150);
  EXPECT_EQ(generator_.num_waiting(), 0u);
  const HttpReply late = call("POST", "/v1/batches/" + id + "/cancel");
  EXPECT_EQ(late.status, 409);
  EXPECT_THAT(late.body, HasSubstr("'expired'"));
}

TEST_F(LifetimeTest, EndsABatchThatWaitsBehindOthersOrForANextServer) {
  options_.batch_expiry_seconds = kDay;
  start();
  generator_.pause_after(0);
  std::vector<std::string> ids;
  for (int i = 0; i < BatchWorker::kAtOnce + 1; ++i) ids.push_back(create(upload(lines(9)))["id"]);
  wait_for(ids.front(), {"in_progress"});
  server_.reset();
  now_ += kDay;
  start();
  for (const std::string& id : ids) expect_expired(wait_for(id, {"expired", "completed"}), 0, 9);
}

TEST_F(LifetimeTest, LetsNoBatchExpireUnlessAsked) {
  start();
  generator_.pause_after(0);
  const json created = create(upload(lines(3)));
  EXPECT_TRUE(created["expires_at"].is_null());
  now_ += 1000 * kDay;
  wait_for_a_round();
  generator_.resume();
  EXPECT_EQ(wait_for(created["id"], {"completed", "expired"})["status"], "completed");
}

TEST_F(LifetimeTest, RemovesAFileAtItsTime) {
  start();
  const json file = upload_with(expires_after("3600")).json();
  EXPECT_EQ(file["expires_at"], now_ + 3600);
  const std::string stays = upload("y\n"), id = file["id"];
  EXPECT_TRUE(call("GET", "/v1/files/" + stays).json()["expires_at"].is_null());
  now_ += 3599;
  EXPECT_TRUE(exists(id));
  now_ += 1;
  wait_until_gone(id);
  EXPECT_TRUE(exists(stays));
}

TEST_F(LifetimeTest, KeepsAnExpiredFileWhileABatchReadsIt) {
  start();
  generator_.pause_after(0);
  const std::string file = upload_with(expires_after("3600"), lines(5)).json()["id"];
  const std::string batch = create(file)["id"];
  wait_for(batch, {"in_progress"});
  now_ += kDay;
  wait_for_a_round();
  EXPECT_TRUE(exists(file));
  generator_.resume();
  EXPECT_EQ(wait_for(batch)["request_counts"]["completed"], 5);
  wait_until_gone(file);
}

TEST_F(LifetimeTest, GivesABatchesFilesTheTimeThatWasAskedFor) {
  start();
  const std::string input = upload(lines(3) + line("hot", {{"temperature", 9}}));
  const json batch = wait_for(create_with(
      input, {{"output_expires_after", {{"anchor", "created_at"}, {"seconds", 7200}}}})["id"]);
  for (const char* name : {"output_file_id", "error_file_id"}) {
    const json file = call("GET", "/v1/files/" + batch[name].get<std::string>()).json();
    EXPECT_EQ(file["expires_at"], now_ + 7200) << name;
  }
  now_ += 7200;
  wait_until_gone(batch["output_file_id"]);
  wait_until_gone(batch["error_file_id"]);
  EXPECT_TRUE(exists(input));
}

TEST_F(LifetimeTest, RefusesLifetimesThatItDoesNotKnow) {
  start();
  const auto expect = [](const HttpReply& reply, const std::string& param,
                         const std::string& code) {
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], param);
    EXPECT_EQ(reply.json()["error"]["code"], code);
  };
  const std::string anchor = field("expires_after[anchor]", "created_at");
  expect(upload_with(expires_after("3599")), "expires_after.seconds", "integer_below_min_value");
  expect(upload_with(expires_after("2592001")), "expires_after.seconds", "integer_above_max_value");
  expect(upload_with(expires_after("1e4")), "expires_after.seconds", "invalid_type");
  expect(upload_with(anchor), "expires_after.seconds", "missing_required_parameter");
  expect(upload_with(field("expires_after[seconds]", "3600")), "expires_after.anchor",
         "missing_required_parameter");
  expect(
      upload_with(field("expires_after[anchor]", "now\xff") + field("expires_after[seconds]", "1")),
      "expires_after.anchor", "invalid_value");
  EXPECT_EQ(call("GET", "/v1/files").json()["data"].size(), 0u);
  const auto post = [&](const json& lifetime) {
    return call("POST", "/v1/batches",
                json{{"input_file_id", "file-1"},
                     {"endpoint", "/v1/chat/completions"},
                     {"completion_window", "24h"},
                     {"output_expires_after", lifetime}}
                    .dump());
  };
  expect(post(3600), "output_expires_after", "invalid_type");
  expect(post({{"anchor", "created_at"}, {"seconds", "3600"}}), "output_expires_after.seconds",
         "invalid_type");
  expect(post({{"anchor", "completed_at"}, {"seconds", 3600}}), "output_expires_after.anchor",
         "invalid_value");
}

TEST_F(LifetimeTest, RetainsWhatBatchesReadAndWroteForAsLongAsItIsTold) {
  options_.retain_seconds = 30 * kDay;
  start();
  const std::string input = upload(lines(3)), shared = upload(lines(3)), loose = upload("z\n");
  const json first = wait_for(create(input)["id"]), second = wait_for(create(shared)["id"]);
  now_ += 29 * kDay;
  const json third = wait_for(create(shared)["id"]);
  now_ += kDay;
  wait_until_gone(input);
  wait_until_gone(first["output_file_id"]);
  wait_until_gone(second["output_file_id"]);
  EXPECT_TRUE(exists(shared));  // the third batch read it, too
  EXPECT_TRUE(exists(third["output_file_id"]));
  EXPECT_EQ(call("GET", "/v1/batches").json()["data"].size(), 3u);
  now_ += 29 * kDay;
  wait_until_gone(shared);
  wait_until_gone(third["output_file_id"]);
  EXPECT_TRUE(exists(loose));  // no batch's
}

TEST_F(LifetimeTest, RefusesAnUploadBeyondTheLimitOfAllFiles) {
  options_.data_limit_bytes = 10'000;
  start();
  const std::string first = upload(std::string(6000, 'x'));
  const HttpReply refused = call("POST", "/v1/files", form(std::string(5000, 'y')), kFormType);
  EXPECT_EQ(refused.status, 507);
  EXPECT_EQ(refused.headers.at("x-should-retry"), "false");
  EXPECT_THAT(
      refused.json()["error"]["message"].get<std::string>(),
      AllOf(HasSubstr("it wants 4."), HasSubstr("take 5.86 KiB"), HasSubstr("limit is 9.77 KiB")));
  EXPECT_EQ(refused.json()["error"]["code"], "insufficient_storage");
  EXPECT_TRUE(fs::is_empty(options_.data_dir / "uploads"));
  upload(std::string(4000, 'z'));  // a refused one takes no room
  EXPECT_EQ(call("POST", "/v1/files", form("x"), kFormType).status, 507);
  EXPECT_EQ(call("DELETE", "/v1/files/" + first).status, 200);
  upload(std::string(6000, 'x'));
  server_.reset();
  start();
  EXPECT_EQ(call("POST", "/v1/files", form("x"), kFormType).status, 507);
}

TEST_F(LifetimeTest, CountsWhatBatchesWrite) {
  const std::string input = lines(20);
  options_.data_limit_bytes = static_cast<std::int64_t>(2 * input.size());
  start();
  const json batch = wait_for(create(upload(input))["id"]);
  EXPECT_EQ(batch["status"], "completed");
  const json output = call("GET", "/v1/files/" + batch["output_file_id"].get<std::string>()).json();
  ASSERT_GT(output["bytes"], input.size());  // so that a second input would fit without it
  server_.reset();
  start();
  EXPECT_EQ(call("POST", "/v1/files", form(input), kFormType).status, 507);
}

TEST_F(LifetimeTest, TriesABatchAgainThatTheDiskHeldUp) {
  start(/*ready=*/false);
  const std::string id = create(upload(lines(20)))["id"];
  const fs::path obstacle = options_.data_dir / "partial" / (id + ".output");
  fs::create_directory(obstacle);
  std::atomic<int> submitted{0};
  generator_.on_submit = [&](const std::string&) { ++submitted; };
  serve();
  wait_for(id, {"in_progress"});
  wait_for_a_round();
  wait_for_a_round();
  EXPECT_EQ(call("GET", "/v1/batches/" + id).json()["status"], "in_progress");
  EXPECT_EQ(wait_for(create(upload(lines(2)))["id"])["status"], "completed");  // others go on
  fs::remove(obstacle);
  EXPECT_EQ(wait_for(id)["request_counts"]["completed"], 20);
  EXPECT_EQ(submitted, 22);
}

TEST_F(LifetimeTest, EndsABatchThatTheDiskHoldsUpOnceItCan) {
  start(/*ready=*/false);
  const std::string id = create(upload(lines(20)))["id"];
  const fs::path obstacle = options_.data_dir / "partial" / (id + ".output");
  fs::create_directory(obstacle);
  serve();
  wait_for(id, {"in_progress"});
  EXPECT_EQ(call("POST", "/v1/batches/" + id + "/cancel").status, 200);
  wait_for_a_round();
  fs::remove(obstacle);
  const json batch = wait_for(id, {"cancelled"});
  EXPECT_EQ(download(batch["error_file_id"]).size(), 20u);
}

TEST_F(LifetimeTest, PutsFilesWithoutARecordAway) {
  start();
  const std::string kept = upload("x\n");
  server_.reset();
  write_file(options_.data_dir / "files" / "file-unknown", "precious");
  start();
  EXPECT_TRUE(exists(kept));
  EXPECT_EQ(read_file(options_.data_dir / "lost" / "file-unknown"), "precious");
  EXPECT_FALSE(fs::exists(options_.data_dir / "files" / "file-unknown"));
}

TEST_F(LifetimeTest, RefusesFilesWhoseStoreIsGone) {
  start();
  const std::string kept = upload("x\n");
  server_.reset();
  fs::rename(options_.data_dir / "jobs.db", directory_ / "jobs.db");
  EXPECT_THAT([&] { start(); },
              testing::ThrowsMessage<IoError>(
                  AllOf(HasSubstr(options_.data_dir.string()), HasSubstr("jobs.db is gone"))));
  fs::rename(directory_ / "jobs.db", options_.data_dir / "jobs.db");
  start();
  EXPECT_TRUE(exists(kept));
}

}  // namespace
}  // namespace barge::test
