#pragma once

#include <cstdint>
#include <vector>

#include "jobs/job_store.h"
#include "server/data_directory.h"

namespace barge {

/// Moves what a batch has written to where its files are read, and names them in `job`: an output
/// and an error file, each if it holds anything. Their records, created `now` (Unix seconds), are
/// the caller's to store. May be repeated after a crash: ids follow from the batch's. Throws
/// IoError.
std::vector<FileRecord> publish_files(const DataDirectory& directory, JobRecord& job,
                                      std::int64_t now);

/// Whether `publish_files` has begun: nothing may be written any more.
bool is_published(const DataDirectory& directory, const JobRecord& job);

/// The ids that its files have or would have.
std::vector<std::string> file_ids_of(const std::string& batch_id);

}  // namespace barge
