#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "core/errors.h"
#include "jobs/job_store.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using test::read_file;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t kLogHeaderBytes = 32, kFrameBytes = 24 + 4096;

// A store of a few files as a killed process leaves it: most of it is in the log.
class DamagedStore : public ::testing::Test {
 protected:
  DamagedStore() {
    const pid_t child = fork();
    if (child == 0) {
      JobStore store(db_);
      for (int i = 0; i < kFiles; ++i) store.add_file({.id = "file-" + std::to_string(i)});
      _exit(0);  // without closing it
    }
    int status = 0;
    waitpid(child, &status, 0);
    log_bytes_ = read_file(log_);
  }

  std::size_t frames() const { return (log_bytes_.size() - kLogHeaderBytes) / kFrameBytes; }
  static std::size_t frame(std::size_t i) { return kLogHeaderBytes + i * kFrameBytes; }
  // Both files as they were, but for a byte of the log.
  void with_damage(std::size_t at, const std::function<void()>& check) {
    SCOPED_TRACE(at);
    std::string damaged = log_bytes_;
    damaged[at] ^= 0x10;
    const std::string db = read_file(db_);
    write_file(log_, damaged);
    check();
    write_file(db_, db);
  }
  std::size_t files_found() { return JobStore(db_).files().size(); }

  static constexpr int kFiles = 9;
  test::TempDirectory directory_;
  const std::filesystem::path db_ = directory_ / "db", log_ = directory_ / "db-wal";
  std::string log_bytes_;
};

TEST_F(DamagedStore, IsWholeAfterAKill) {
  ASSERT_GT(frames(), std::size_t{kFiles});
  EXPECT_EQ(files_found(), std::size_t{kFiles});
}

TEST_F(DamagedStore, IsRefusedWhereTheLogIsDamagedBeforeItsLastCommits) {
  const auto refused = [&] {
    EXPECT_THAT([&] { JobStore store(db_); },
                ThrowsMessage<IoError>(AllOf(HasSubstr(log_.string()), HasSubstr("is damaged"),
                                             HasSubstr("would be lost"))));
  };
  for (std::size_t i = 0; i + 3 < frames(); ++i) {
    with_damage(frame(i) + 24 + 100, refused);  // in the page
    with_damage(frame(i) + 9, refused);         // in the salts
    with_damage(frame(i) + 17, refused);        // in the checksums
  }
  with_damage(5, [&] {
    EXPECT_THAT([&] { JobStore store(db_); },
                ThrowsMessage<IoError>(HasSubstr("its header is not SQLite's")));
  });
}

TEST_F(DamagedStore, IsWholeButForACommitThatWasNeverFinished) {
  with_damage(frame(frames() - 1) + 24 + 100,
              [&] { EXPECT_EQ(files_found(), std::size_t{kFiles - 1}); });
  write_file(log_, log_bytes_.substr(0, log_bytes_.size() - kFrameBytes / 2));
  EXPECT_EQ(files_found(), std::size_t{kFiles - 1});
}

TEST_F(DamagedStore, TakesALogThatWasNeverBegun) {
  write_file(log_, log_bytes_.substr(0, 20));
  EXPECT_EQ(files_found(), 0u);
}

TEST_F(DamagedStore, IsRefusedWhereItsPagesAreDamaged) {
  { JobStore store(db_); }  // moves the log into it
  std::string bytes = read_file(db_);
  ASSERT_GE(bytes.size(), 3u * 4096);
  for (std::size_t at = 4096; at < 2 * 4096; ++at) bytes[at] ^= 0x5a;  // the first table
  write_file(db_, bytes);
  EXPECT_THAT([&] { JobStore store(db_); },
              ThrowsMessage<IoError>(AllOf(HasSubstr(db_.string()), HasSubstr("is damaged"),
                                           HasSubstr("Restore it"))));
  bytes[0] ^= 1;
  write_file(db_, bytes);
  EXPECT_THAT([&] { JobStore store(db_); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("is damaged"), HasSubstr("not a database"))));
}

}  // namespace
}  // namespace barge
