#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace barge {

/// A file that was uploaded, or written for a job. Its bytes are elsewhere, under its id.
struct FileRecord {
  std::string id;        // file-...
  std::string filename;  // the user's word: never a path
  std::string purpose;
  std::int64_t bytes = 0, created_at = 0;  // Unix seconds
  std::string owner;                       // a hash of whose it is; empty: everybody's
  std::optional<std::int64_t> expires_at;
};

enum class JobStatus {
  kValidating,
  kInProgress,
  kFinalizing,
  kCompleted,
  kFailed,
  kCancelling,
  kCancelled,
  kExpired
};
/// "validating", "in_progress", ...
const char* status_name(JobStatus status);
bool is_terminal(JobStatus status);

/// What changes the answers of a job, by name: model fingerprint, dtype, bits, seed, ...
using Identity = std::map<std::string, std::string>;
/// "\n  dtype: was float32, is bfloat16", a line each; empty if there is none.
std::string differences(const Identity& was, const Identity& is);

/// A job: one input file, answered line by line. Times are Unix seconds.
struct JobRecord {
  std::string id;  // batch_...
  std::string endpoint, input_file_id, completion_window;
  std::string metadata_json;  // "null" or an object
  JobStatus status = JobStatus::kValidating;
  std::optional<std::string> model, output_file_id, error_file_id;
  std::string errors_json = "null";
  Identity identity;  // empty until it runs
  std::string owner;  // as a file's
  std::int64_t created_at = 0;
  std::optional<std::int64_t> in_progress_at, finalizing_at, completed_at, failed_at;
  std::optional<std::int64_t> cancelling_at, cancelled_at;
  std::optional<std::int64_t> expires_at;  // what isn't answered then won't be
  std::optional<std::int64_t> expired_at;  // also of one that is still finalizing because of it
  std::optional<std::int64_t> output_lifetime;  // of its files, in seconds from their creation
  std::int64_t total = 0;                       // requests; 0 until validated

  // Below: changed by `record_answers` alone, in step with the answers.
  std::int64_t completed = 0, failed = 0;  // requests
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  std::int64_t output_bytes = 0, error_bytes = 0;  // of the files, all of them whole lines
  std::uint64_t logits_hash = 0;                   // of all answers, whatever their order
};

/// Whether the job's remaining lines get errors and no answers: it was cancelled or has expired.
bool is_cut_short(const JobRecord& job);

/// A line that has its answer.
struct AnswerRecord {
  static constexpr int kNotRun = 0;  // a status: the batch was cut short before it ran

  std::int64_t line = 0;  // 1-based, in the input file
  int status = 200;       // HTTP
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t logits_hash = 0;
};

/// Jobs, which of their lines are answered, and files' metadata, in one SQLite file that only one
/// process at a time may open. What a call wrote is on the disk when it returns. Thread-safe;
/// calls wait for each other and for the disk. Everything throws IoError.
class JobStore {
 public:
  /// Opens or creates. Throws FormatError for a store of another version.
  explicit JobStore(const std::filesystem::path& path);
  ~JobStore();

  void add_file(const FileRecord& file);
  std::optional<FileRecord> file(const std::string& id);
  std::vector<FileRecord> files();  // newest first
  /// Forgets the record; false: there was none.
  bool remove_file(const std::string& id);
  /// Forgets the records of files whose time has come, but for those that an unfinished job reads.
  /// Their ids.
  std::vector<std::string> remove_expired_files(std::int64_t now);
  /// The same for what finished jobs read and wrote, where the last of these jobs ended by `until`.
  std::vector<std::string> remove_files_of_jobs(std::int64_t until);
  /// Of all files, and of what unfinished jobs have written.
  std::int64_t stored_bytes();

  void add_job(const JobRecord& job);
  std::optional<JobRecord> job(const std::string& id);
  std::vector<JobRecord> jobs();          // newest first
  std::vector<std::string> unfinished();  // ids, oldest first
  /// One that isn't finished and reads this file, if there is one.
  std::optional<std::string> reader_of(const std::string& file_id);
  /// Writes all but id, input and what `record_answers` changes, and adds `files` in the same step,
  /// if the job's status is still `was`. False: somebody has changed it, and nothing was written.
  bool update_job(const JobRecord& job, JobStatus was, std::span<const FileRecord> files = {});
  /// Makes a job that is validating or in progress `cancelling`. The job as it is then; none: it
  /// isn't known.
  std::optional<JobRecord> cancel_job(const std::string& id, std::int64_t now);
  /// Makes jobs that are validating or in progress, and whose time has come, `finalizing` with
  /// `expired_at` set. Their ids.
  std::vector<std::string> expire_jobs(std::int64_t now);
  /// Forgets the job and its answers.
  void remove_job(const std::string& id);

  /// Call it when the lines are on the disk: output and error files are this long now.
  void record_answers(const std::string& job_id, std::span<const AnswerRecord> answers,
                      std::int64_t output_bytes, std::int64_t error_bytes);
  /// [lines + 1 or more] by line number; true: answered.
  std::vector<bool> answered_lines(const std::string& job_id);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace barge
