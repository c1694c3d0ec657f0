#include "server/batch_worker.h"

#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/log.h"
#include "jobs/answer_file.h"
#include "jobs/completion_response.h"
#include "jobs/job_runner.h"
#include "jobs/validation.h"

namespace barge {

BatchWorker::BatchWorker(const ServerOptions& options, const DataDirectory& directory,
                         JobStore& store)
    : options_(options), directory_(directory), store_(store) {
  for (std::string& id : store.unfinished()) waiting_.push_back(std::move(id));
}

void BatchWorker::serve(ServedModel model) {
  model.identity["seed"] = std::to_string(options_.seed);
  const std::lock_guard lock(mutex_);
  if (stop_ || model_) return;
  model_ = std::move(model);
  thread_ = std::thread([this] { work(); });
}

void BatchWorker::enqueue(const std::string& id) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(id);
  changed_.notify_one();
}

void BatchWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void BatchWorker::work() {
  for (;;) {
    std::string id;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      id = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      process(id);
    } catch (const std::exception& error) {
      // The disk or the engine, not the batch, is at fault: its answers so far are kept.
      log::error(concat("batch ", id, " was put aside and goes on when the server is started ",
                        "again: ", error.what()));
    }
  }
}

void BatchWorker::process(const std::string& id) {
  auto job = store_.job(id);
  if (!job) return;
  if (job->status == JobStatus::kValidating)
    validate_batch(*job);
  else
    log::info(concat("batch ", id, " goes on: ", job->completed + job->failed, " of ", job->total,
                     " requests are answered"));
  if (job->status == JobStatus::kInProgress) {
    if (!same_identity(*job) || !run_batch(*job)) return;
    job->status = JobStatus::kFinalizing;
    job->finalizing_at = std::time(nullptr);
    store_.update_job(*job);
  }
  if (job->status == JobStatus::kFinalizing) finalize(*job);
}

void BatchWorker::validate_batch(JobRecord& job) {
  const LineRules rules{endpoint_of(job.endpoint), {options_.served_model_name}};
  Validation found;
  if (store_.file(job.input_file_id))
    found = validate(directory_.file(job.input_file_id), rules,
                     {.max_requests = options_.max_batch_requests});
  else
    found.problems.push_back({"invalid_request",
                              concat("Cannot find file ", job.input_file_id,
                                     ", or the organization does not have access to it."),
                              "file_id"});
  if (!found.problems.empty()) {
    job.status = JobStatus::kFailed;
    job.failed_at = std::time(nullptr);
    job.errors_json = to_text(problems_json(found.problems));
    log::info(concat("batch ", job.id, " failed: ", found.problems.front().message));
  } else {
    job.status = JobStatus::kInProgress;
    job.in_progress_at = std::time(nullptr);
    job.total = static_cast<std::int64_t>(found.num_requests);
    job.model = options_.served_model_name;
    job.identity = model_->identity;
    log::info(concat("batch ", job.id, " begins: ", job.total, " requests"));
  }
  store_.update_job(job);
}

bool BatchWorker::same_identity(const JobRecord& job) const {
  if (job.identity == model_->identity) return true;
  log::warning(concat("batch ", job.id,
                      " waits: it was begun with another model or other options, ",
                      "and its answers would not match. Start the server as it was:",
                      differences(job.identity, model_->identity)));
  return false;
}

// False: stopped on the way.
bool BatchWorker::run_batch(const JobRecord& job) {
  const JobRunOptions run{.input = directory_.file(job.input_file_id),
                          .output = directory_.partial_output(job.id),
                          .errors = directory_.partial_errors(job.id),
                          .rules = {endpoint_of(job.endpoint), {options_.served_model_name}},
                          .seed = options_.seed,
                          .lookahead = model_->lookahead,
                          .live_tokens = model_->live_tokens};
  return run_lines(*model_->generator, store_, job.id, run, {}, stop_) == JobOutcome::kFinished;
}

// Publishes the files. Each step may be repeated after a crash: their ids follow from the batch's.
void BatchWorker::finalize(JobRecord& job) {
  job = *store_.job(job.id);  // with the counts
  std::vector<FileRecord> files;
  const auto publish = [&](const std::filesystem::path& partial, const char* kind,
                           std::int64_t bytes) -> std::optional<std::string> {
    if (bytes == 0) {
      std::filesystem::remove(partial);
      return std::nullopt;
    }
    FileRecord file{.id = derived_id("file-", job.id + kind), .purpose = "batch_output"};
    file.filename = job.id + '_' + kind + ".jsonl";
    file.bytes = bytes;
    file.created_at = std::time(nullptr);
    std::error_code error;
    std::filesystem::rename(partial, directory_.file(file.id), error);
    if (error && !std::filesystem::exists(directory_.file(file.id)))
      throw IoError(concat("cannot move ", partial.string(), " to ",
                           directory_.file(file.id).string(), ": ", error.message()));
    files.push_back(std::move(file));
    return files.back().id;
  };
  job.output_file_id = publish(directory_.partial_output(job.id), "output", job.output_bytes);
  job.error_file_id = publish(directory_.partial_errors(job.id), "error", job.error_bytes);
  sync_directory(directory_.files());
  job.status = JobStatus::kCompleted;
  job.completed_at = std::time(nullptr);
  store_.update_job(job, files);
  log::info(concat("batch ", job.id, " is complete: ", job.completed, " answers, ", job.failed,
                   " errors"));
}

}  // namespace barge
