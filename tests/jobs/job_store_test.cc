#include "jobs/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "core/errors.h"
#include "jobs/job_schema.h"
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

void execute(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* db = nullptr;
  sqlite3_open(path.c_str(), &db);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

TEST(JobStore, TakesOverStoresOfAllOlderVersions) {
  for (std::int64_t version = 1; version <= kSchemaVersion; ++version) {
    SCOPED_TRACE(version);
    const test::TempDirectory directory;
    for (std::int64_t i = 0; i < version; ++i) execute(directory / "db", kSchemaSteps[i]);
    execute(directory / "db", concat(R"sql(
        INSERT INTO files (id, filename, purpose, bytes, created_at)
          VALUES ('file-1', 'in', 'batch', 5, 19);
        INSERT INTO jobs (id, endpoint, input_file_id, completion_window, metadata, status, errors,
                          identity, created_at, total, completed)
          VALUES ('a', '/v1/completions', 'file-1', '24h', 'null', 'in_progress', 'null',
                  '{"dtype":"float32"}', 17, 3, 1);
        INSERT INTO answers VALUES ('a', 2, 200);
        PRAGMA user_version = )sql",
                                     version));
    for (int opening = 0; opening < 2; ++opening) {  // the second finds a store of this version
      JobStore store(directory / "db");
      const JobRecord job = *store.job("a");
      EXPECT_EQ(job.endpoint, "/v1/completions");
      EXPECT_EQ(job.identity, (Identity{{"dtype", "float32"}}));
      EXPECT_EQ(job.total, 3);
      EXPECT_EQ(job.completed, 1);
      EXPECT_EQ(job.expires_at, std::nullopt);
      EXPECT_EQ(job.output_lifetime, std::nullopt);
      EXPECT_EQ(job.owner, "");
      EXPECT_TRUE(store.answered_lines("a")[2]);
      EXPECT_EQ(store.file("file-1")->bytes, 5);
      EXPECT_EQ(store.file("file-1")->expires_at, std::nullopt);
    }
    JobStore store(directory / "db");
    store.add_file({.id = "file-2", .filename = "in", .purpose = "batch", .expires_at = 7});
    EXPECT_THAT(store.remove_expired_files(7), ElementsAre("file-2"));
    EXPECT_EQ(store.cancel_job("a", 20)->cancelling_at, 20);
  }
}

TEST(JobStore, ExpiresWhatRunsWhenItsTimeHasCome) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  JobRecord early = example("early"), late = example("late"), done = example("done");
  early.expires_at = 100;
  late.expires_at = 101;
  late.output_lifetime = 7200;
  done.expires_at = 100;
  for (const JobRecord& job : {early, late, done, example("never")}) store.add_job(job);
  done.status = JobStatus::kCompleted;
  store.update_job(done, JobStatus::kValidating);
  EXPECT_THAT(store.expire_jobs(99), ElementsAre());
  EXPECT_THAT(store.expire_jobs(100), ElementsAre("early"));
  EXPECT_THAT(store.expire_jobs(100), ElementsAre());
  const JobRecord job = *store.job("early");
  EXPECT_EQ(job.status, JobStatus::kFinalizing);
  EXPECT_EQ(job.expired_at, 100);
  EXPECT_TRUE(is_cut_short(job));
  EXPECT_FALSE(is_cut_short(*store.job("late")));
  EXPECT_EQ(store.job("late")->output_lifetime, 7200);
  EXPECT_EQ(store.cancel_job("early", 101)->status, JobStatus::kFinalizing);
}

TEST(JobStore, ForgetsWhichLinesOfAnEndedJobWereAnswered) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  store.add_job(example("a"));
  const AnswerRecord answer{.line = 1};
  store.record_answers("a", {&answer, 1}, 10, 0);
  JobRecord job = *store.job("a");
  job.status = JobStatus::kCompleted;
  store.update_job(job, JobStatus::kValidating);
  EXPECT_EQ(store.answered_lines("a").size(), 1u);
  EXPECT_EQ(store.job("a")->completed, 1);
}

TEST(JobStore, CountsTheBytesOfFilesAndOfWhatIsUnderWay) {
  const test::TempDirectory directory;
  JobStore store(directory / "db");
  EXPECT_EQ(store.stored_bytes(), 0);
  store.add_file({.id = "file-1", .bytes = 100});
  for (const char* id : {"a", "b"}) {
    store.add_job(example(id));
    const AnswerRecord answer{.line = 1};
    store.record_answers(id, {&answer, 1}, 10, 3);
  }
  JobRecord job = *store.job("a");
  job.status = JobStatus::kCompleted;  // its bytes are a file's now
  const FileRecord files[] = {{.id = "file-2", .bytes = 10}};
  store.update_job(job, JobStatus::kValidating, files);
  EXPECT_EQ(store.stored_bytes(), 100 + 10 + 13);
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
