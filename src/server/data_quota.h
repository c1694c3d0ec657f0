#pragma once

#include <atomic>
#include <cstdint>

#include "jobs/job_store.h"

namespace barge {

/// How much of --data-limit is taken: by files, by what running batches have written and by uploads
/// under way. It refuses uploads; answers, once computed, are always written. Thread-safe; nothing
/// but `refresh` waits.
class DataQuota {
 public:
  /// `limit_bytes` 0: none. `store` must outlive this. Throws IoError.
  DataQuota(std::int64_t limit_bytes, JobStore& store);

  /// Asks the store how much there is. To be called now and then, and where something was removed.
  void refresh();

  /// The share of one upload, given back unless it was kept.
  class Upload {
   public:
    explicit Upload(DataQuota& quota) : quota_(quota) {}
    ~Upload() { quota_.uploading_ -= bytes_; }
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    /// Throws RequestError (507), naming what is wanted, what is taken and the limit.
    void grow(std::int64_t bytes);
    /// The store has the file from now on.
    void keep();

   private:
    DataQuota& quota_;
    std::int64_t bytes_ = 0;
  };

 private:
  const std::int64_t limit_bytes_;
  JobStore& store_;
  std::atomic<std::int64_t> stored_{0}, uploading_{0};  // bytes
};

}  // namespace barge
