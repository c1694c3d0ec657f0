#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "jobs/job_store.h"
#include "server/batch_worker.h"
#include "server/data_directory.h"
#include "server/data_quota.h"
#include "server/server.h"

namespace barge {

/// What is to be done as time goes by: ends batches and removes files whose time has come, and lets
/// batches go on that were put aside. Every `housekeeping_every`, on a thread of its own.
class Housekeeper {
 public:
  /// References must outlive this.
  Housekeeper(const ServerOptions& options, const DataDirectory& directory, JobStore& store,
              BatchWorker& worker, DataQuota& quota);
  ~Housekeeper() { stop(); }

  void stop();

 private:
  void work();
  void tidy();
  void remove(const std::string& file, const char* why);

  const ServerOptions& options_;
  const DataDirectory& directory_;
  JobStore& store_;
  BatchWorker& worker_;
  DataQuota& quota_;
  std::string trouble_;  // that was told last
  std::mutex mutex_;     // guards stop_
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace barge
