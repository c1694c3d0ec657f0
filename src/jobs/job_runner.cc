#include "jobs/job_runner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "jobs/answer_identity.h"
#include "jobs/answer_log.h"
#include "jobs/completion_request.h"
#include "jobs/completion_response.h"

namespace barge {
namespace {

using std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(100);  // until `stop` is looked at again
constexpr auto kProgressEvery = std::chrono::milliseconds(500);
constexpr std::size_t kMaxUnrecorded = 256;  // error lines and answers in memory

// One choice of a line came back.
struct Arrival {
  std::size_t line = 0, choice = 0;
  TextResult result;
};

// Where the engine's thread leaves results. Shared with the callbacks, which may come after the
// runner gave up.
class Inbox {
 public:
  void put(Arrival arrival) {
    {
      const std::lock_guard lock(mutex_);
      arrivals_.push_back(std::move(arrival));
    }
    changed_.notify_one();
  }
  /// All there is; waits for a first one, at most kPatience.
  std::vector<Arrival> take() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return !arrivals_.empty(); });
    return std::exchange(arrivals_, {});
  }

 private:
  std::mutex mutex_;  // guards arrivals_
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
};

// A line whose choices are being generated.
struct Pending {
  std::string custom_id;
  CompletionRequest request;
  std::vector<TextResult> results;
  std::vector<Generator::RequestId> ids;
  std::size_t missing = 0;     // choices that haven't come back
  std::size_t line_bytes = 0;  // of the input
  bool cancelled = false;
};

std::int64_t number_of(const BatchLine& line) { return static_cast<std::int64_t>(line.number); }

JobRecord known_job(JobStore& store, const std::string& job_id) {
  auto job = store.job(job_id);
  if (!job) throw Error(concat("cannot run job ", job_id, ": the store doesn't know it"));
  return *job;
}

class Runner {
 public:
  Runner(Generator& generator, JobStore& store, const JobRecord& job, const JobRunOptions& options,
         const std::function<void(const JobProgress&)>& progress, const std::atomic<bool>& stop)
      : generator_(generator),
        options_(options),
        report_(progress),
        stop_(stop),
        reader_(options.input),
        checker_(options.rules),
        log_(store, job, options.output, options.errors) {
    progress_.total = job.total;
    progress_.completed = log_.before().completed;
    progress_.failed = log_.before().failed;
    progress_.resumed = progress_.completed + progress_.failed;
    if (options.live_tokens) live_before_ = options.live_tokens();
  }
  // Leaves nothing running, also when an exception passes.
  ~Runner() { cancel_all(); }

  JobOutcome run() {
    bool more = true, stopping = false;
    while (more || in_flight_ > 0) {
      if (stop_ && !stopping) {
        stopping = true;
        more = false;
        cancel_all();
      }
      while (more && wants_more() && log_.unrecorded() < kMaxUnrecorded && !stop_) more = feed();
      if (in_flight_ > 0 && (log_.unrecorded() == 0 || !wants_more() || !more))
        for (Arrival& arrival : inbox_->take()) accept(std::move(arrival));
      record();
      tell(/*now=*/false);
    }
    tell(/*now=*/true);
    return progress_.completed + progress_.failed >= progress_.total ? JobOutcome::kFinished
                                                                     : JobOutcome::kStopped;
  }

 private:
  bool wants_more() const {
    const int jobs = options_.sharers ? std::max(1, options_.sharers->load()) : 1;
    return options_.lookahead.shared_by(jobs).wants_more(in_flight_, pending_bytes_);
  }

  // Takes the next unanswered line of the input; false at its end.
  bool feed() {
    LineReader::Line text;
    if (!reader_.next(text)) return false;
    BatchLine line = checker_.check(text);
    if (log_.answered(line.number)) return true;
    if (line.problem) {
      log_.add_error(number_of(line), line.custom_id, line.problem->as_error());
      return true;
    }
    try {
      submit(line, text.text.size());
    } catch (const RequestError& error) {
      abandon(line.number);
      check_generator();
      log_.add_error(number_of(line), line.custom_id, error);
    }
    return true;
  }

  void submit(const BatchLine& line, std::size_t line_bytes) {
    auto request =
        parse_completion(line.endpoint, line.body, derived_seed(options_.seed, *line.custom_id));
    encode_echoed_prompts(request, generator_);
    const std::size_t num_texts = request.texts.size();
    Pending& pending = pending_[line.number];
    pending.custom_id = *line.custom_id;
    pending.results.resize(num_texts);
    pending_bytes_ += pending.line_bytes = line_bytes;
    pending.request = std::move(request);
    for (std::size_t choice = 0; choice < num_texts; ++choice) {
      pending.ids.push_back(
          generator_.submit(pending.request.texts[choice], {},
                            [inbox = inbox_, number = line.number, choice](TextResult result) {
                              inbox->put({number, choice, std::move(result)});
                            }));
      ++pending.missing;
      ++in_flight_;
    }
  }

  // A line one of whose choices was refused: the others are of no use. They still come back.
  void abandon(std::size_t number) {
    const auto found = pending_.find(number);
    if (found == pending_.end()) return;
    for (const auto id : found->second.ids) generator_.cancel(id);
    forget(found);
  }

  void accept(Arrival arrival) {
    --in_flight_;
    const auto found = pending_.find(arrival.line);
    if (found == pending_.end()) return;
    Pending& pending = found->second;
    if (arrival.result.reason == FinishReason::kError) check_generator();
    pending.cancelled |= arrival.result.reason == FinishReason::kCancelled;
    pending.results[arrival.choice] = std::move(arrival.result);
    if (--pending.missing > 0) return;
    if (!pending.cancelled) finish(arrival.line, pending);
    forget(found);
  }

  void forget(std::map<std::size_t, Pending>::iterator line) {
    pending_bytes_ -= line->second.line_bytes;
    pending_.erase(line);
  }

  void check_generator() const {
    if (const std::string failure = generator_.failure(); !failure.empty())
      throw Error(concat("generation ended before the job: ", failure));
  }

  void finish(std::size_t number, const Pending& pending) {
    AnswerRecord record{.line = static_cast<std::int64_t>(number)};
    const CompletionRequest& request = pending.request;
    for (std::size_t i = 0; i < pending.results.size(); ++i) {
      const TextResult& result = pending.results[i];
      if (result.reason == FinishReason::kError) {
        log_.add_error(record.line, pending.custom_id, RequestError(result.error, "", "", 500));
        return;
      }
      if (i % request.choices_per_prompt == 0) record.prompt_tokens += result.prompt_tokens;
      record.generated_tokens += result.completion_tokens;
      if (result.logits_hash != 0)
        record.logits_hash ^= mix64(result.logits_hash + hash128(pending.custom_id).low + i);
    }
    const char* prefix = request.endpoint == Endpoint::kChatCompletions ? "chatcmpl-" : "cmpl-";
    auto body = completion_body(request, pending.results, generator_,
                                prefix + log_.name(record.line), std::time(nullptr));
    if (record.logits_hash != 0) body["logits_hash"] = hash_text(record.logits_hash);
    log_.add(record, pending.custom_id, body);
  }

  void record() {
    if (log_.unrecorded() == 0) return;
    const AnswerLog::Counts counts = log_.record();
    progress_.completed += counts.completed;
    progress_.failed += counts.failed;
    progress_.prompt_tokens += counts.prompt_tokens;
    progress_.generated_tokens += counts.generated_tokens;
    tell(/*now=*/true);
  }

  void tell(bool now) {
    if (!report_ || (!now && steady_clock::now() - told_ < kProgressEvery)) return;
    told_ = steady_clock::now();
    progress_.seconds = std::chrono::duration<double>(told_ - started_).count();
    const std::int64_t tokens =
        options_.live_tokens ? options_.live_tokens() - live_before_ : progress_.generated_tokens;
    progress_.tokens_per_s = static_cast<double>(tokens) / std::max(progress_.seconds, 1e-9);
    const std::int64_t done = progress_.completed + progress_.failed;
    if (done > progress_.resumed)
      progress_.seconds_left = progress_.seconds / static_cast<double>(done - progress_.resumed) *
                               static_cast<double>(progress_.total - done);
    report_(progress_);
  }

  void cancel_all() {
    for (const auto& [number, pending] : pending_)
      for (const auto id : pending.ids) generator_.cancel(id);
  }

  Generator& generator_;
  const JobRunOptions& options_;
  const std::function<void(const JobProgress&)>& report_;
  const std::atomic<bool>& stop_;

  LineReader reader_;
  LineChecker checker_;
  AnswerLog log_;

  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::map<std::size_t, Pending> pending_;  // by line number
  int in_flight_ = 0;                       // sequences
  std::size_t pending_bytes_ = 0;           // of the lines in pending_

  const steady_clock::time_point started_ = steady_clock::now();
  steady_clock::time_point told_ = started_;
  JobProgress progress_;
  std::int64_t live_before_ = 0;
};

}  // namespace

JobOutcome run_lines(Generator& generator, JobStore& store, const std::string& job_id,
                     const JobRunOptions& options,
                     const std::function<void(const JobProgress&)>& progress,
                     const std::atomic<bool>& stop) {
  return Runner(generator, store, known_job(store, job_id), options, progress, stop).run();
}

void refuse_lines(JobStore& store, const std::string& job_id, const JobRunOptions& options,
                  std::string_view code, std::string_view message) {
  AnswerLog log(store, known_job(store, job_id), options.output, options.errors);
  LineReader reader(options.input);
  LineChecker checker(options.rules);
  LineReader::Line text;
  while (reader.next(text)) {
    const BatchLine line = checker.check(text);
    if (log.answered(line.number)) continue;
    log.add_not_run(number_of(line), line.custom_id, code, message);
    if (log.unrecorded() == kMaxUnrecorded) log.record();
  }
  if (log.unrecorded() > 0) log.record();
}

}  // namespace barge
