#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "jobs/job_runner.h"
#include "jobs/lookahead.h"

namespace barge {

/// What `barge run` is told.
struct RunOptions {
  std::filesystem::path input, output;
  Identity identity;       // what changes answers: model fingerprint, dtype, bits, template, ...
  std::uint64_t seed = 0;  // of requests that bring none; part of the identity by itself
  std::vector<std::string> models;  // names that lines may ask for; empty: any single one
  bool strict = false;              // refuse a file with a bad line instead of answering it so
  bool overwrite = false;           // drop an output and its state and start again
  Lookahead lookahead;
  std::function<std::int64_t()> live_tokens;  // see JobRunOptions
};

struct RunSummary {
  std::int64_t lines = 0, completed = 0, failed = 0;     // of the whole job
  std::int64_t resumed = 0;                              // lines answered before this run
  std::int64_t prompt_tokens = 0, generated_tokens = 0;  // of this run
  double seconds = 0;                                    // of this run
  bool already_complete = false;                         // nothing was left to do
  bool stopped = false;           // by `stop`: the same command goes on later
  std::uint64_t logits_hash = 0;  // over all answers, whatever their order; if the engine hashes
};

/// Where the state of a job is kept, beside its output: OUTPUT.barge/job.db.
std::filesystem::path run_state_directory(const std::filesystem::path& output);

/// Answers every line of options.input with a line of options.output, bad ones with an error, in
/// the order in which they finish; goes on where an earlier run of the same job stopped or died. An
/// output that is gone (or has no line yet) starts a new job.
/// `progress` and `stop`: as for run_lines.
///
/// Throws ConfigError, before anything is written: for an output that isn't this job's, and, naming
/// what differs, if input, seed or identity differ from what the output was begun with; FormatError
/// for bad lines under `strict`, naming the first ones. IoError, Error: as run_lines.
RunSummary run_job(Generator& generator, const RunOptions& options,
                   const std::function<void(const JobProgress&)>& progress,
                   const std::atomic<bool>& stop);

/// For before the model is loaded, which may take long: throws what `run_job` would throw for
/// options, input, output and state; true if the job is complete already.
bool check_job(const RunOptions& options);

}  // namespace barge
