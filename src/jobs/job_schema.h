#pragma once

#include <array>
#include <cstdint>

namespace barge {

inline constexpr const char* kFirstSchema = R"sql(
CREATE TABLE files (
  id TEXT PRIMARY KEY, filename TEXT NOT NULL, purpose TEXT NOT NULL,
  bytes INTEGER NOT NULL, created_at INTEGER NOT NULL);
CREATE TABLE jobs (
  id TEXT PRIMARY KEY, endpoint TEXT NOT NULL, input_file_id TEXT NOT NULL,
  completion_window TEXT NOT NULL, metadata TEXT NOT NULL,
  status TEXT NOT NULL, model TEXT, output_file_id TEXT, error_file_id TEXT,
  errors TEXT NOT NULL, identity TEXT NOT NULL,
  created_at INTEGER NOT NULL, in_progress_at INTEGER, finalizing_at INTEGER,
  completed_at INTEGER, failed_at INTEGER, total INTEGER NOT NULL,
  completed INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
  prompt_tokens INTEGER NOT NULL DEFAULT 0, generated_tokens INTEGER NOT NULL DEFAULT 0,
  output_bytes INTEGER NOT NULL DEFAULT 0, error_bytes INTEGER NOT NULL DEFAULT 0,
  logits_hash INTEGER NOT NULL DEFAULT 0);
CREATE TABLE answers (
  job TEXT NOT NULL, line INTEGER NOT NULL, status INTEGER NOT NULL,
  PRIMARY KEY (job, line)) WITHOUT ROWID;
)sql";

inline constexpr const char* kCancelling = R"sql(
ALTER TABLE jobs ADD COLUMN cancelling_at INTEGER;
ALTER TABLE jobs ADD COLUMN cancelled_at INTEGER;
)sql";

inline constexpr const char* kOwners = R"sql(
ALTER TABLE files ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
)sql";

// Of an uploaded file, of a batch; a batch's wish for its outputs, in seconds from their creation.
inline constexpr const char* kLifetimes = R"sql(
ALTER TABLE files ADD COLUMN expires_at INTEGER;
ALTER TABLE jobs ADD COLUMN expires_at INTEGER;
ALTER TABLE jobs ADD COLUMN expired_at INTEGER;
ALTER TABLE jobs ADD COLUMN output_lifetime INTEGER;
)sql";

/// Entry i makes version i + 1 of a job store's version i. What is here stays: stores of all ages
/// are about. Internal to JobStore.
inline constexpr std::array kSchemaSteps = {kFirstSchema, kCancelling, kOwners, kLifetimes};
inline constexpr std::int64_t kSchemaVersion = kSchemaSteps.size();

}  // namespace barge
