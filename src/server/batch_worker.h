#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "jobs/job_store.h"
#include "server/data_directory.h"
#include "server/server.h"

namespace barge {

/// Takes batches from validating to completed or failed, one at a time, first come first served, on
/// a thread of its own. Begins with those that an earlier server left.
class BatchWorker {
 public:
  /// References must outlive this. Nothing happens before `serve`.
  BatchWorker(const ServerOptions& options, const DataDirectory& directory, JobStore& store);
  ~BatchWorker() { stop(); }

  void serve(ServedModel model);
  /// A job that was added to the store.
  void enqueue(const std::string& id);
  /// Ends the running batch with its sweep; what isn't finished goes on in the next server.
  void stop();

 private:
  void work();
  void process(const std::string& id);
  void validate_batch(JobRecord& job);
  bool same_identity(const JobRecord& job) const;
  bool run_batch(const JobRecord& job);
  void finalize(JobRecord& job);

  const ServerOptions& options_;
  const DataDirectory& directory_;
  JobStore& store_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards waiting_ and model_ until the thread runs
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::optional<ServedModel> model_;
  std::thread thread_;
};

}  // namespace barge
