#include "jobs/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "core/errors.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

JobRecord example(const std::string& id) {
  JobRecord job{.id = id, .endpoint = "/v1/completions", .input_file_id = "file-1"};
  job.completion_window = "24h";
  job.metadata_json = R"({"a":"b"})";
  job.identity = {{"dtype", "float32"}, {"model", "caf\xc3\xa9"}};
  job.created_at = 17;
  job.owner = "0123";
  job.total = 3;
  return job;
}

TEST(JobStore, KeepsAJobThroughReopening) {
  const test::TempDirectory directory;
  {
    JobStore store(directory / "db");
    store.add_job(example("batch_1"));
    JobRecord job = *store.job("batch_1");
    job.status = JobStatus::kInProgress;
    job.in_progress_at = 18;
    job.model = "m";
    EXPECT_TRUE(store.update_job(job, JobStatus::kValidating));
    const AnswerRecord answers[] = {{3, 200, 10, 5, 0xF000000000000001u}, {1, 400}};
    store.record_answers("batch_1", answers, 111, 22);
  }
  JobStore store(directory / "db");
  const JobRecord job = *store.job("batch_1");
  EXPECT_EQ(job.endpoint, "/v1/completions");
  EXPECT_EQ(job.status, JobStatus::kInProgress);
  EXPECT_EQ(job.in_progress_at, 18);
  EXPECT_EQ(job.completed_at, std::nullopt);
  EXPECT_EQ(job.model, "m");
  EXPECT_EQ(job.output_file_id, std::nullopt);
  EXPECT_EQ(job.identity, example("").identity);
  EXPECT_EQ(job.metadata_json, R"({"a":"b"})");
  EXPECT_EQ(job.owner, "0123");
  EXPECT_EQ(job.completed, 1);
  EXPECT_EQ(job.failed, 1);
  EXPECT_EQ(job.prompt_tokens, 10);
  EXPECT_EQ(job.generated_tokens, 5);
  EXPECT_EQ(job.output_bytes, 111);
  EXPECT_EQ(job.error_bytes, 22);
  EXPECT_EQ(job.logits_hash, 0xF000000000000001u);
  const auto lines = store.answered_lines("batch_1");
  ASSERT_GE(lines.size(), 4u);
  EXPECT_TRUE(lines[1] && !lines[2] && lines[3]);
}

TEST(JobStore, CombinesLogitsHashesWhateverTheirOrder) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  store.add_job(example("a"));
  store.add_job(example("b"));
  const AnswerRecord x{1, 200, 0, 0, 0xFFFFFFFFFFFFFFFFu}, y{2, 200, 0, 0, 0x7FFFFFFFFFFFFFFFu};
  for (const AnswerRecord& answer : {x, y}) store.record_answers("a", {&answer, 1}, 0, 0);
  for (const AnswerRecord& answer : {y, x}) store.record_answers("b", {&answer, 1}, 0, 0);
  EXPECT_EQ(store.job("a")->logits_hash, 0x8000000000000000u);
  EXPECT_EQ(store.job("b")->logits_hash, 0x8000000000000000u);
}

TEST(JobStore, RecordsAllAnswersOfACallOrNone) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  store.add_job(example("a"));
  const AnswerRecord first[] = {{.line = 1}};
  store.record_answers("a", first, 10, 0);
  const AnswerRecord again[] = {{.line = 2}, {.line = 1}};
  EXPECT_THROW(store.record_answers("a", again, 20, 0), IoError);
  EXPECT_EQ(store.job("a")->completed, 1);
  EXPECT_EQ(store.job("a")->output_bytes, 10);
  EXPECT_FALSE(store.answered_lines("a")[2]);
}

TEST(JobStore, ListsNewestFirstAndUnfinishedOldestFirst) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  for (const char* id : {"a", "b", "c"}) store.add_job(example(id));
  JobRecord done = *store.job("b");
  done.status = JobStatus::kFailed;
  store.update_job(done, JobStatus::kValidating);
  std::vector<std::string> ids;
  for (const JobRecord& job : store.jobs()) ids.push_back(job.id);
  EXPECT_THAT(ids, ElementsAre("c", "b", "a"));
  EXPECT_THAT(store.unfinished(), ElementsAre("a", "c"));
}

TEST(JobStore, AddsFilesInTheStepThatFinishesAJob) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  store.add_job(example("a"));
  JobRecord job = *store.job("a");
  job.status = JobStatus::kCompleted;
  job.output_file_id = "file-2";
  const FileRecord files[] = {{"file-2", "out'; DROP TABLE jobs; --", "batch_output", 5, 19, "me"}};
  store.update_job(job, JobStatus::kValidating, files);
  EXPECT_EQ(store.file("file-2")->filename, files[0].filename);
  EXPECT_EQ(store.file("file-2")->owner, "me");
  EXPECT_FALSE(store.file("file-3"));
  EXPECT_EQ(store.files().size(), 1u);
  EXPECT_THROW(store.add_file(files[0]), IoError);
}

TEST(JobStore, CancelsWhatRunsAndLetsNobodyOverlookThat) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  store.add_job(example("a"));
  JobRecord job = *store.job("a");
  EXPECT_EQ(store.cancel_job("a", 20)->status, JobStatus::kCancelling);
  EXPECT_EQ(store.cancel_job("a", 30)->cancelling_at, 20);
  job.status = JobStatus::kInProgress;
  const FileRecord files[] = {{"file-2", "out", "batch_output", 5, 19}};
  EXPECT_FALSE(store.update_job(job, JobStatus::kValidating, files));
  EXPECT_EQ(store.job("a")->status, JobStatus::kCancelling);
  EXPECT_FALSE(store.file("file-2"));
  job = *store.job("a");
  job.status = JobStatus::kCancelled;
  job.cancelled_at = 40;
  EXPECT_TRUE(store.update_job(job, JobStatus::kCancelling));
  EXPECT_EQ(store.cancel_job("a", 50)->cancelled_at, 40);
  EXPECT_FALSE(store.cancel_job("b", 50));
}

TEST(JobStore, CountsALineThatWasNotRunAsNeitherCompletedNorFailed) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  store.add_job(example("a"));
  const AnswerRecord answers[] = {{1, 200}, {2, 400}, {3, AnswerRecord::kNotRun}};
  store.record_answers("a", answers, 1, 1);
  EXPECT_EQ(store.job("a")->completed, 1);
  EXPECT_EQ(store.job("a")->failed, 1);
  EXPECT_TRUE(store.answered_lines("a")[3]);
}

TEST(JobStore, KnowsWhoReadsAFileAndForgetsIt) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  store.add_file({"file-1", "in", "batch", 5, 19});
  store.add_job(example("a"));
  EXPECT_EQ(store.reader_of("file-1"), "a");
  JobRecord job = *store.job("a");
  job.status = JobStatus::kFailed;
  store.update_job(job, JobStatus::kValidating);
  EXPECT_FALSE(store.reader_of("file-1"));
  EXPECT_TRUE(store.remove_file("file-1"));
  EXPECT_FALSE(store.remove_file("file-1"));
  EXPECT_FALSE(store.file("file-1"));
}

TEST(JobStore, TakesOverAStoreOfTheFirstVersion) {
  const test::TempDirectory directory;
  {
    JobStore store(directory / "db");
    store.add_file({"file-1", "in", "batch", 5, 19});
    store.add_job(example("a"));
  }
  sqlite3* db = nullptr;  // what later versions added is taken away
  sqlite3_open((directory / "db").c_str(), &db);
  for (const char* sql :
       {"ALTER TABLE jobs DROP COLUMN cancelling_at", "ALTER TABLE jobs DROP COLUMN cancelled_at",
        "ALTER TABLE jobs DROP COLUMN owner", "ALTER TABLE files DROP COLUMN owner",
        "PRAGMA user_version = 1"})
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
  JobStore store(directory / "db");
  EXPECT_EQ(store.job("a")->endpoint, "/v1/completions");
  EXPECT_EQ(store.cancel_job("a", 20)->cancelling_at, 20);
  EXPECT_EQ(store.file("file-1")->bytes, 5);
}

TEST(JobStore, LetsNoSecondProcessIn) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  const pid_t child = fork();
  if (child == 0) {  // a lock of the same process would not count
    try {
      JobStore second(directory / "db");
    } catch (const IoError& error) {
      _exit(std::string(error.what()).find("in use by another process") == std::string::npos ? 2
                                                                                             : 0);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(JobStore, RefusesAnotherVersionAndWhatIsNoStore) {
  const test::TempDirectory directory;
  { JobStore store(directory / "db"); }
  sqlite3* db = nullptr;
  sqlite3_open((directory / "db").c_str(), &db);
  sqlite3_exec(db, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_THAT([&] { JobStore store(directory / "db"); },
              ThrowsMessage<FormatError>(HasSubstr("version 99")));
  test::write_file(directory / "text", std::string(5000, 'x'));
  EXPECT_THROW(JobStore(directory / "text"), IoError);
  EXPECT_THROW(JobStore(directory / "no" / "db"), IoError);
}

}  // namespace
}  // namespace barge
