#include "server/batch_worker.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/log.h"
#include "jobs/completion_response.h"
#include "jobs/validation.h"
#include "server/batch_files.h"

namespace barge {

BatchWorker::BatchWorker(const ServerOptions& options, const DataDirectory& directory,
                         JobStore& store)
    : options_(options), directory_(directory), store_(store) {
  for (std::string& id : store.unfinished())
    (is_cut_short(*store.job(id)) ? ending_ : waiting_).push_back(std::move(id));
}

void BatchWorker::serve(ServedModel model) {
  model.identity["seed"] = std::to_string(options_.seed);
  const std::lock_guard lock(mutex_);
  if (stop_ || model_) return;
  model_ = std::move(model);
  for (int i = 0; i < kAtOnce; ++i) threads_.emplace_back([this] { work(waiting_); });
  threads_.emplace_back([this] { work(ending_); });
}

void BatchWorker::enqueue(const std::string& id) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(id);
  changed_.notify_all();
}

void BatchWorker::cut_short(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = running_.find(id); found != running_.end()) {
    found->second->stop = true;
    return;
  }
  std::erase(waiting_, id);
  aside_.erase(id);
  if (std::ranges::find(ending_, id) == ending_.end()) ending_.push_back(id);
  changed_.notify_all();
}

void BatchWorker::resume_put_aside() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, aside] : aside_) {
    if (!aside.queue || --aside.rounds_left > 0) continue;
    std::exchange(aside.queue, nullptr)->push_back(id);
    changed_.notify_all();
  }
}

// The disk or the engine is at fault, not the batch: its answers so far are kept. Under mutex_.
void BatchWorker::put_aside(const std::string& id, std::deque<std::string>& queue,
                            const std::string& why) {
  if (!model_->generator->failure().empty()) {
    log::error(
        concat("batch ", id, " was put aside and goes on when the server is started again: ", why));
    return;
  }
  Aside& aside = aside_[id];
  const Running& running = *running_.at(id);
  const std::int64_t done = running.progress.completed + running.progress.failed;
  aside.wait_rounds =
      done > aside.lines_done ? 1 : std::clamp(2 * aside.wait_rounds, 1, kMostRounds);
  aside.lines_done = done;
  aside.rounds_left = aside.wait_rounds;
  aside.queue = &queue;
  log::error(
      concat("batch ", id, " was put aside and is tried again in ",
             std::chrono::duration<double>(aside.wait_rounds * options_.housekeeping_every).count(),
             " s: ", why));
}

BatchNumbers BatchWorker::numbers() {
  const std::lock_guard lock(mutex_);
  BatchNumbers numbers{.waiting = waiting_.size(),
                       .lines_completed = lines_completed_,
                       .lines_failed = lines_failed_};
  for (const auto& [id, aside] : aside_) numbers.waiting += aside.queue != nullptr;
  for (const auto& [id, running] : running_) {
    const JobProgress& at = running->progress;
    numbers.running[id] = {at.total, at.completed, at.failed, at.seconds_left};
  }
  return numbers;
}

void BatchWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& [id, running] : running_) running->stop = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void BatchWorker::work(std::deque<std::string>& queue) {
  for (;;) {
    std::string id;
    const auto running = std::make_shared<Running>();  // shared with those who stop it
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !queue.empty(); });
      if (stop_) return;
      id = std::move(queue.front());
      queue.pop_front();
      running_[id] = running;
    }
    std::optional<std::string> trouble;
    try {
      process(id, *running);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    // In one step: whoever takes it up again mustn't find it running, nor be forgotten here.
    const std::lock_guard lock(mutex_);
    if (trouble)
      put_aside(id, queue, *trouble);
    else
      aside_.erase(id);
    running_.erase(id);
  }
}

void BatchWorker::process(const std::string& id, Running& running) {
  auto job = store_.job(id);
  if (job && job->status == JobStatus::kInProgress)
    log::info(concat("batch ", id, " goes on: ", job->completed + job->failed, " of ", job->total,
                     " requests are answered"));
  // Who cancels it, or time, changes its status between two steps, or makes one of them fail.
  while (job && !is_terminal(job->status) && advance(*job, running)) job = store_.job(id);
}

// One step; false: it goes on in another server.
bool BatchWorker::advance(JobRecord& job, Running& running) {
  switch (job.status) {
    case JobStatus::kValidating:
      validate_batch(job);
      break;
    case JobStatus::kInProgress:
      if (!same_identity(job)) return false;
      if (!run_batch(job, running)) return is_cut_short(*store_.job(job.id));
      job.status = JobStatus::kFinalizing;
      job.finalizing_at = options_.now();
      store_.update_job(job, JobStatus::kInProgress);
      break;
    case JobStatus::kCancelling:
      end_rest(job);
      break;
    default:
      if (is_cut_short(job))
        end_rest(job);
      else
        finalize(job, JobStatus::kCompleted);
  }
  return true;
}

void BatchWorker::validate_batch(JobRecord& job) {
  const JobStatus was = job.status;
  const LineRules rules{endpoint_of(job.endpoint), {options_.served_model_name}};
  Validation found;
  const auto file = store_.file(job.input_file_id);
  if (file && (file->owner.empty() || job.owner.empty() || file->owner == job.owner))
    found = validate(directory_.file(job.input_file_id), rules,
                     {.max_requests = options_.max_batch_requests});
  else
    found.problems.push_back({"invalid_request",
                              concat("Cannot find file ", job.input_file_id,
                                     ", or the organization does not have access to it."),
                              "file_id"});
  if (!found.problems.empty()) {
    if (was != JobStatus::kValidating) return;
    job.status = JobStatus::kFailed;
    job.failed_at = options_.now();
    job.errors_json = to_text(problems_json(found.problems));
    log::info(concat("batch ", job.id, " failed: ", found.problems.front().message));
  } else {
    if (was == JobStatus::kValidating) {
      job.status = JobStatus::kInProgress;
      job.in_progress_at = options_.now();
      log::info(concat("batch ", job.id, " begins: ", found.num_requests, " requests"));
    }
    job.total = static_cast<std::int64_t>(found.num_requests);
    job.model = options_.served_model_name;
    job.identity = model_->identity;
  }
  store_.update_job(job, was);
}

bool BatchWorker::same_identity(const JobRecord& job) const {
  if (job.identity == model_->identity) return true;
  log::warning(concat("batch ", job.id,
                      " waits: it was begun with another model or other options, ",
                      "and its answers would not match. Start the server as it was:",
                      differences(job.identity, model_->identity)));
  return false;
}

JobRunOptions BatchWorker::run_options(const JobRecord& job) const {
  return {.input = directory_.file(job.input_file_id),
          .output = directory_.partial_output(job.id),
          .errors = directory_.partial_errors(job.id),
          .rules = {endpoint_of(job.endpoint), {options_.served_model_name}},
          .seed = options_.seed,
          .lookahead = model_->lookahead,
          .sharers = &sharers_,
          .live_tokens = model_->live_tokens};
}

// False: stopped on the way.
bool BatchWorker::run_batch(const JobRecord& job, Running& running) {
  struct Share {
    explicit Share(std::atomic<int>& count) : count(count) { ++count; }
    ~Share() { --count; }
    std::atomic<int>& count;
  } const share(sharers_);
  bool began = true;
  const auto note = [&](const JobProgress& now) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(began, false)) {
      lines_completed_ += now.completed - running.progress.completed;
      lines_failed_ += now.failed - running.progress.failed;
    }
    running.progress = now;
  };
  note({.total = job.total, .completed = job.completed, .failed = job.failed});
  return run_lines(*model_->generator, store_, job.id, run_options(job), note, running.stop) ==
         JobOutcome::kFinished;
}

// Each line has its place in one of the files: those without an answer get an error.
void BatchWorker::end_rest(JobRecord& job) {
  const bool cancelled = job.status == JobStatus::kCancelling;
  if (job.total == 0) validate_batch(job);  // to see whether it has lines to speak of
  if (job.total > 0 && !is_published(directory_, job))
    refuse_lines(store_, job.id, run_options(job), cancelled ? "batch_cancelled" : "batch_expired",
                 cancelled ? "This request was not executed: its batch was cancelled."
                           : "This request could not be executed before the completion window "
                             "expired.");
  finalize(job, cancelled ? JobStatus::kCancelled : JobStatus::kExpired);
}

void BatchWorker::finalize(JobRecord& job, JobStatus end) {
  job = *store_.job(job.id);  // with the counts
  const JobStatus was = job.status;
  const std::int64_t now = options_.now();
  const std::vector<FileRecord> files = publish_files(directory_, job, now);
  job.status = end;
  if (end == JobStatus::kCompleted) job.completed_at = now;
  if (end == JobStatus::kCancelled) job.cancelled_at = now;
  store_.update_job(job, was, files);
  log::info(concat("batch ", job.id, " is ", status_name(end), ": ", job.completed, " answers, ",
                   job.failed, " errors"));
}

}  // namespace barge
