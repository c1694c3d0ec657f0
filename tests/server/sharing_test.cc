#include <atomic>
#include <mutex>

#include "server/batch_worker.h"
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

std::string lines_of(const std::string& name, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line(name + "-" + std::to_string(i));
  return text;
}

TEST_F(ServerTest, GivesASmallBatchItsPartOfTheEngineBesideALargeOne) {
  constexpr int kSmall = 20, kLarge = 3000;
  std::atomic<int> large{0}, small{0}, large_before_last_small{0};
  generator_.on_submit = [&](const std::string& prompt) {
    if (prompt.find("ask large") != std::string::npos) ++large;
    if (prompt.find("ask small") != std::string::npos && ++small == kSmall)
      large_before_last_small = large.load();
  };
  generator_.before_done = [] { std::this_thread::sleep_for(std::chrono::microseconds(500)); };
  start();
  const std::string long_one = create(upload(lines_of("large", kLarge)))["id"];
  wait_for(long_one, {"in_progress"});
  const std::string short_one = create(upload(lines_of("small", kSmall)))["id"];
  const int before = large;
  EXPECT_EQ(wait_for(short_one)["status"], "completed");
  // An equal part is about a line for a line; how threads are scheduled may make it some more.
  EXPECT_LE(large_before_last_small - before, 10 * kSmall);
  EXPECT_EQ(call("GET", "/v1/batches/" + long_one).json()["status"], "in_progress");
  server_->stop();  // the generator counts no more
}

TEST_F(ServerTest, RunsAFewBatchesAtOnceAndTheOthersInTheirOrder) {
  start();
  generator_.pause_after(0);
  std::vector<std::string> ids;
  for (int i = 0; i < BatchWorker::kAtOnce + 2; ++i) ids.push_back(create(upload(lines(3)))["id"]);
  for (int i = 0; i < BatchWorker::kAtOnce; ++i) wait_for(ids[i], {"in_progress"});
  const auto status = [&](const std::string& id) {
    return call("GET", "/v1/batches/" + id).json()["status"].get<std::string>();
  };
  for (int i = BatchWorker::kAtOnce; i < BatchWorker::kAtOnce + 2; ++i)
    EXPECT_EQ(status(ids[i]), "validating");
  call("POST", "/v1/batches/" + ids[1] + "/cancel");
  wait_for(ids[1], {"cancelled"});
  wait_for(ids[BatchWorker::kAtOnce], {"in_progress"});
  EXPECT_EQ(status(ids.back()), "validating");
  generator_.resume();
  for (const std::string& id : ids) wait_for(id, {"completed", "cancelled"});
}

}  // namespace
}  // namespace barge::test
