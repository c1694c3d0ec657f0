#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "engine/generator.h"
#include "jobs/batch_line.h"
#include "jobs/job_store.h"
#include "jobs/lookahead.h"

namespace barge {

/// Where a job stands, as its record on the disk has it.
struct JobProgress {
  std::int64_t total = 0, completed = 0, failed = 0;  // lines
  std::int64_t resumed = 0;                           // of those, answered before this run
  // Of this run only:
  std::int64_t prompt_tokens = 0, generated_tokens = 0;  // of finished lines
  double seconds = 0;
  double tokens_per_s = 0;   // generated
  double seconds_left = -1;  // at this run's rate of lines; -1: not known yet
};

struct JobRunOptions {
  std::filesystem::path input;
  std::filesystem::path output;  // answers
  std::filesystem::path errors;  // error lines; may be `output`: then all lines go there
  LineRules rules;
  std::uint64_t seed = 0;  // for requests that bring none, see derived_seed
  Lookahead lookahead;
  const std::atomic<int>* sharers = nullptr;  // jobs that share the lookahead now; null: this one
  /// Counts tokens generated so far, also of unfinished lines; may be empty. For a rate that moves
  /// between two finished lines.
  std::function<std::int64_t()> live_tokens;
};

enum class JobOutcome { kFinished, kStopped };

/// Answers the lines of a job (already in `store`, with its total) that have no answer yet, and
/// returns when all have one, or soon after `stop` turned true: sequences in flight end with their
/// sweep then, and only whole answers are kept. Lines that finish together are written, made
/// durable and recorded together; whole lines that a killed process wrote and didn't record are
/// kept too, so only what was in flight is repeated. Memory: for the lines that `lookahead` lets
/// in and 16 to 32 bytes a custom_id.
///
/// `progress` (may be empty) is called on this thread after each record and twice a second.
/// Throws IoError for the files, Error if the generator fails; what was recorded stays.
JobOutcome run_lines(Generator& generator, JobStore& store, const std::string& job_id,
                     const JobRunOptions& options,
                     const std::function<void(const JobProgress&)>& progress,
                     const std::atomic<bool>& stop);

/// Gives every line that has no answer yet an error line with `code` and `message`, without running
/// it: afterwards each has its line in one of the files. May be called again after a crash. Throws
/// IoError.
void refuse_lines(JobStore& store, const std::string& job_id, const JobRunOptions& options,
                  std::string_view code, std::string_view message);

}  // namespace barge
