#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "jobs/job_store.h"

namespace barge {

/// Where the server keeps what it has on the disk:
///   jobs.db          jobs and files' metadata (JobStore)
///   files/ID         uploads and outputs, whole
///   partial/ID.*     outputs of batches that aren't finished
///   uploads/         uploads that aren't complete; emptied at start
///   lost/            files without a record: a crash came between the one and the other
/// Names come from barge's own ids only, never from a user.
class DataDirectory {
 public:
  /// Makes what isn't there. Throws IoError, also where there are files and no store of them.
  explicit DataDirectory(std::filesystem::path root);

  std::filesystem::path store() const { return root_ / "jobs.db"; }
  std::filesystem::path file(const std::string& id) const { return root_ / "files" / id; }
  std::filesystem::path files() const { return root_ / "files"; }
  std::filesystem::path upload(const std::string& id) const { return root_ / "uploads" / id; }
  std::filesystem::path partial_output(const std::string& job) const {
    return root_ / "partial" / (job + ".output");
  }
  std::filesystem::path partial_errors(const std::string& job) const {
    return root_ / "partial" / (job + ".errors");
  }

  /// Removes what dead processes left in uploads/, and moves files of which `store` knows nothing
  /// to lost/. Call it once the store is open, so that no other process is at work here. Throws
  /// IoError.
  void tidy(JobStore& store) const;

 private:
  void put_away_lost(JobStore& store) const;

  std::filesystem::path root_;
};

/// "file-" or "batch_" and 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);
/// The same, but always the same for one `key`.
std::string derived_id(std::string_view prefix, std::string_view key);

/// A name to show, from a name that a user sent: no directories, no control characters, UTF-8, at
/// most 255 bytes; "upload" if nothing is left.
std::string display_name(std::string_view filename);

}  // namespace barge
