#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "jobs/job_runner.h"
#include "jobs/job_store.h"
#include "server/data_directory.h"
#include "server/metrics.h"
#include "server/server.h"

namespace barge {

/// Takes batches from validating to their end, a few at a time, first come first served: those that
/// run share the engine in equal parts, so that a small one needn't wait for the end of a large
/// one. Begins with those that an earlier server left. Thread-safe.
class BatchWorker {
 public:
  static constexpr int kAtOnce = 4;

  /// References must outlive this. Nothing happens before `serve`.
  BatchWorker(const ServerOptions& options, const DataDirectory& directory, JobStore& store);
  ~BatchWorker() { stop(); }

  void serve(ServedModel model);
  /// A job that was added to the store.
  void enqueue(const std::string& id);
  /// A job that the store has as cut short: it ends with the sweep if it runs, else at once.
  void cut_short(const std::string& id);
  /// To be called every `housekeeping_every`. Batches that the disk held up are tried again after
  /// 1, 2, 4, ... 64 such rounds, and again after one once they get on.
  void resume_put_aside();
  BatchNumbers numbers();
  /// Ends the running batches with their sweep; what isn't finished goes on in the next server.
  void stop();

 private:
  struct Running {
    std::atomic<bool> stop{false};
    JobProgress progress;  // guarded by mutex_
  };

  static constexpr int kMostRounds = 64;
  struct Aside {  // of one that the disk held up, until it ends
    int wait_rounds = 0, rounds_left = 0;
    std::int64_t lines_done = 0;               // when it was put aside last
    std::deque<std::string>* queue = nullptr;  // to go back to; null: it has
  };

  void work(std::deque<std::string>& queue);
  void put_aside(const std::string& id, std::deque<std::string>& queue, const std::string& why);
  void process(const std::string& id, Running& running);
  bool advance(JobRecord& job, Running& running);
  void validate_batch(JobRecord& job);
  bool same_identity(const JobRecord& job) const;
  bool run_batch(const JobRecord& job, Running& running);
  void end_rest(JobRecord& job);
  void finalize(JobRecord& job, JobStatus end);
  JobRunOptions run_options(const JobRecord& job) const;

  const ServerOptions& options_;
  const DataDirectory& directory_;
  JobStore& store_;
  std::atomic<int> sharers_{0};  // batches whose lines run
  std::mutex mutex_;             // guards what follows; model_ until the threads run
  std::condition_variable changed_;
  bool stop_ = false;
  std::deque<std::string> waiting_, ending_;  // the latter, cut short, have a thread of their own
  std::map<std::string, Aside> aside_;
  std::map<std::string, std::shared_ptr<Running>> running_;
  std::int64_t lines_completed_ = 0, lines_failed_ = 0;  // since the start
  std::optional<ServedModel> model_;
  std::vector<std::thread> threads_;
};

}  // namespace barge
