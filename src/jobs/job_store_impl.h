#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "core/errors.h"
#include "jobs/job_schema.h"
#include "jobs/job_store.h"
#include "jobs/sqlite.h"

namespace barge {

// In SQL: a job that goes on.
inline constexpr const char* kUnfinished =
    "status NOT IN ('completed', 'failed', 'cancelled', 'expired')";

/// Internal to JobStore's sources.
class JobStore::Impl {
 public:
  explicit Impl(const std::filesystem::path& path) : db(path) {
    Statement version(db, "PRAGMA user_version");
    version.bind().step();
    const auto found = version.integer(0);
    version.bind();
    if (found == kSchemaVersion) return;
    if (found > kSchemaVersion)
      throw FormatError(concat("the job store ", path.string(), " has format version ", found,
                               ", this barge reads up to ", kSchemaVersion,
                               "; use the barge that wrote it or another directory"));
    Sqlite::Transaction transaction(db);
    for (std::int64_t i = found; i < kSchemaVersion; ++i) db.execute(kSchemaSteps[i]);
    db.execute(concat("PRAGMA user_version = ", kSchemaVersion).c_str());
    transaction.commit();
  }

  /// The first column of each row, to the statement's end.
  static std::vector<std::string> ids(Statement& row) {
    std::vector<std::string> ids;
    while (row.step()) ids.push_back(row.text(0));
    return ids;
  }

  void insert_file(const FileRecord& file) {
    Statement(db, "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?)")
        .bind(file.id, file.filename, file.purpose, file.bytes, file.created_at, file.owner,
              file.expires_at)
        .run();
  }

  std::mutex mutex;  // guards db
  Sqlite db;
};

}  // namespace barge
