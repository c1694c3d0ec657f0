#include "server/housekeeper.h"

#include <filesystem>
#include <system_error>

#include "core/errors.h"
#include "core/log.h"

namespace barge {

Housekeeper::Housekeeper(const ServerOptions& options, const DataDirectory& directory,
                         JobStore& store, BatchWorker& worker, DataQuota& quota)
    : options_(options),
      directory_(directory),
      store_(store),
      worker_(worker),
      quota_(quota),
      thread_([this] { work(); }) {}

void Housekeeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Housekeeper::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    try {
      tidy();
      trouble_.clear();
    } catch (const std::exception& error) {  // once, not every second
      if (trouble_ != error.what()) log::error(concat("housekeeping: ", trouble_ = error.what()));
    }
    lock.lock();
    changed_.wait_for(lock, options_.housekeeping_every, [this] { return stop_; });
  }
}

void Housekeeper::tidy() {
  worker_.resume_put_aside();
  const std::int64_t now = options_.now();
  for (const std::string& id : store_.expire_jobs(now)) {
    log::info(concat("batch ", id, " has expired"));
    worker_.cut_short(id);
  }
  for (const std::string& id : store_.remove_expired_files(now)) remove(id, "it has expired");
  if (options_.retain_seconds > 0)
    for (const std::string& id : store_.remove_files_of_jobs(now - options_.retain_seconds))
      remove(id, "its batches ended long enough ago");
  quota_.refresh();
}

void Housekeeper::remove(const std::string& file, const char* why) {
  std::error_code ignored;  // what stays is found at the next start
  std::filesystem::remove(directory_.file(file), ignored);
  log::info(concat("file ", file, " was removed: ", why));
}

}  // namespace barge
