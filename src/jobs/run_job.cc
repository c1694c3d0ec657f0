#include "jobs/run_job.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <system_error>

#include "core/errors.h"
#include "jobs/answer_file.h"
#include "jobs/validation.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJobId = "run";
constexpr std::size_t kProblemsShown = 10;

void refuse_bad_lines(const fs::path& input, const Validation& found) {
  if (found.num_problems == 0) return;
  std::string text =
      concat(input.string(), " has ", found.num_problems, " bad lines, and --strict refuses them:");
  for (const LineProblem& problem : found.problems)
    text += concat("\n  line ", problem.line, ": ", problem.message);
  if (found.num_problems > found.problems.size()) text += "\n  ...";
  throw FormatError(text);
}

std::int64_t size_or_zero(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(bytes);
}

// A job that was looked at and may run.
class PreparedJob {
 public:
  explicit PreparedJob(const RunOptions& options) : options_(options) {
    check_paths();
    read_input();
    identity_ = options.identity;
    identity_["input"] = input_.content_hash.hex();
    identity_["seed"] = std::to_string(options.seed);
    if (options.overwrite) remove_old();
    if (fs::exists(state_ / "job.db")) {
      open_store();
      check_earlier();
    } else if (size_or_zero(options.output) > 0) {
      throw ConfigError(concat(
          options.output.string(), " exists and isn't the output of a run that ", "could go on (",
          state_.string(), " is missing); move it away or ", "pass --overwrite"));
    }
  }

  bool complete() const { return job_ && job_->status == JobStatus::kCompleted; }

  RunSummary run(Generator& generator, const std::function<void(const JobProgress&)>& progress,
                 const std::atomic<bool>& stop) {
    RunSummary summary;
    if (complete()) {
      summary.already_complete = true;
      summary.resumed = job_->completed + job_->failed;
    } else {
      begin();
      run_lines_into(summary, generator, progress, stop);
    }
    summary.lines = job_->total;
    summary.completed = job_->completed;
    summary.failed = job_->failed;
    summary.logits_hash = job_->logits_hash;
    return summary;
  }

 private:
  void check_paths() const {
    std::error_code error;
    if (fs::equivalent(options_.input, options_.output, error))
      throw ConfigError(concat("input and output are the same file: ", options_.input.string()));
    if (fs::exists(options_.output) && !fs::is_regular_file(options_.output))
      throw ConfigError(concat(options_.output.string(),
                               " is not a regular file; a job needs one, ",
                               "so that it can go on after an interruption"));
    const fs::path parent = options_.output.parent_path();
    if (!parent.empty() && !fs::is_directory(parent))
      throw ConfigError(concat("the directory of the output doesn't exist: ", parent.string()));
  }

  void read_input() {
    if (!options_.strict) {
      input_ = scan(options_.input);
      return;
    }
    constexpr std::size_t kAny = std::size_t{1} << 60;
    input_ = validate(options_.input, {.models = options_.models},
                      {.max_requests = kAny, .max_problems = kProblemsShown});
    if (input_.num_requests > 0) refuse_bad_lines(options_.input, input_);
  }

  void remove_old() const {
    open_and_close_store();  // throws if another process is at it
    fs::remove(options_.output);
    fs::remove_all(state_);
  }
  void open_and_close_store() const {
    if (fs::exists(state_ / "job.db")) JobStore{state_ / "job.db"};
  }

  void open_store() {
    store_ = std::make_unique<JobStore>(state_ / "job.db");
    job_ = store_->job(kJobId);
  }

  void check_earlier() {
    const std::int64_t bytes = size_or_zero(options_.output);
    if (!job_) {
      if (bytes > 0)
        throw ConfigError(concat(options_.output.string(), " isn't what ", state_.string(),
                                 " knows of; move it away or pass --overwrite"));
      return;
    }
    const bool same = job_->identity == identity_;
    if (!fs::exists(options_.output) || (!same && bytes == 0 && job_->output_bytes == 0)) {
      forget();  // there is nothing to protect
      return;
    }
    if (!same)
      throw ConfigError(concat(options_.output.string(),
                               " was begun as another job:", differences(job_->identity, identity_),
                               "\nRepeat that job's options, choose another output, or pass ",
                               "--overwrite to start again."));
    if (bytes < job_->output_bytes)
      throw ConfigError(concat(options_.output.string(), " has ", bytes, " bytes, but answers of ",
                               job_->output_bytes, " bytes were recorded: it was changed since; ",
                               "restore it or pass --overwrite to start again"));
  }

  void forget() {
    store_->remove_job(kJobId);
    job_.reset();
  }

  void begin() {
    if (!store_) {
      fs::create_directories(state_);
      open_store();
      sync_directory(state_);
      sync_directory(state_.parent_path().empty() ? "." : state_.parent_path());
    }
    if (job_) return;
    JobRecord job{.id = kJobId, .metadata_json = "null", .status = JobStatus::kInProgress};
    job.identity = identity_;
    job.created_at = std::time(nullptr);
    job.in_progress_at = job.created_at;
    job.total = static_cast<std::int64_t>(input_.num_requests);
    store_->add_job(job);
    job_ = job;
  }

  void run_lines_into(RunSummary& summary, Generator& generator,
                      const std::function<void(const JobProgress&)>& progress,
                      const std::atomic<bool>& stop) {
    JobProgress last;
    const auto watch = [&](const JobProgress& now) {
      last = now;
      if (progress) progress(now);
    };
    const JobRunOptions lines{.input = options_.input,
                              .output = options_.output,
                              .errors = options_.output,
                              .rules = {.models = options_.models},
                              .seed = options_.seed,
                              .lookahead = options_.lookahead,
                              .live_tokens = options_.live_tokens};
    const JobOutcome outcome = run_lines(generator, *store_, kJobId, lines, watch, stop);
    summary.resumed = last.resumed;
    summary.prompt_tokens = last.prompt_tokens;
    summary.generated_tokens = last.generated_tokens;
    summary.seconds = last.seconds;
    summary.stopped = outcome == JobOutcome::kStopped;
    job_ = store_->job(kJobId);
    if (summary.stopped) return;
    job_->status = JobStatus::kCompleted;
    job_->completed_at = std::time(nullptr);
    store_->update_job(*job_, JobStatus::kInProgress);
  }

  const RunOptions& options_;
  const fs::path state_ = run_state_directory(options_.output);
  Validation input_;
  Identity identity_;
  std::unique_ptr<JobStore> store_;
  std::optional<JobRecord> job_;
};

}  // namespace

fs::path run_state_directory(const fs::path& output) {
  fs::path state = output;
  state += ".barge";
  return state;
}

RunSummary run_job(Generator& generator, const RunOptions& options,
                   const std::function<void(const JobProgress&)>& progress,
                   const std::atomic<bool>& stop) {
  return PreparedJob(options).run(generator, progress, stop);
}

bool check_job(const RunOptions& options) { return PreparedJob(options).complete(); }

}  // namespace barge
