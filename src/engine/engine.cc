#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/log.h"
#include "engine/scheduler.h"
#include "engine/stores.h"

namespace barge {

class Engine::Impl {
 public:
  Impl(const Pack& pack, const Family& family, Backend& backend, Disk& disk, Budgets& budgets,
       const Options& options, const std::function<void(std::size_t, std::size_t)>& progress)
      : options_(options),
        vocab_(family.config().vocab),
        device_(backend.device()),
        disk_(disk),
        stores_(pack, family, backend, disk, budgets, options, progress),
        scheduler_(stores_, device_, budgets, options_, vocab_) {
    publish();
    thread_ = std::thread([this] { loop(); });
  }

  ~Impl() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  RequestId submit(GenerationRequest request) {
    check(request);
    auto sequence = std::make_unique<Sequence>();
    sequence->request = std::move(request);
    RequestId id = 0;
    {
      const std::scoped_lock lock(mutex_);
      id = sequence->id = ++last_id_;
      submitted_.push_back(std::move(sequence));
    }
    changed_.notify_one();
    return id;
  }

  void cancel(RequestId id) {
    {
      const std::scoped_lock lock(mutex_);
      cancelled_.push_back(id);
    }
    changed_.notify_one();
  }

  int max_positions() const { return stores_.max_positions(); }
  int vocab() const { return vocab_; }

  EngineStats stats() const {
    const std::scoped_lock lock(mutex_);
    EngineStats stats = stats_;
    stats.waiting += submitted_.size();
    add_measured(stats, stores_, device_, disk_);
    return stats;
  }

  std::string failure() const {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

 private:
  void check(const GenerationRequest& request) const;
  void check_tokens(const std::vector<TokenId>& tokens, const char* param) const;

  void loop() {
    for (;;) {
      std::vector<std::unique_ptr<Sequence>> submitted;
      std::vector<RequestId> cancelled;
      bool stopping = false;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] {
          return stopping_ || !submitted_.empty() || !cancelled_.empty() || !scheduler_.idle();
        });
        submitted.swap(submitted_);
        cancelled.swap(cancelled_);
        stopping = stopping_;
      }
      for (auto& sequence : submitted) scheduler_.add(std::move(sequence));
      if (stopping)
        scheduler_.end_all(FinishReason::kCancelled, {});
      else
        advance(cancelled);
      publish();
      scheduler_.tell_ends();
      if (stopping) return;
    }
  }

  // A sweep, or the end of everything.
  void advance(const std::vector<RequestId>& cancelled) {
    std::string failure = this->failure();
    if (failure.empty()) {
      try {
        for (const RequestId id : cancelled) scheduler_.cancel(id);
        return scheduler_.step();
      } catch (const std::exception& e) {
        failure = e.what();
        if (options_.on_failure) options_.on_failure(e);
      }
      log::error(concat("the engine ends: ", failure));
      stores_.sweep().abandon();
      const std::scoped_lock lock(mutex_);
      failure_ = failure;
    }
    scheduler_.end_all(FinishReason::kError, failure);
  }

  void publish() {
    EngineStats stats = counted(scheduler_, stores_);
    const std::scoped_lock lock(mutex_);
    stats_ = std::move(stats);
  }

  const Options options_;
  const int vocab_;
  Device& device_;
  Disk& disk_;
  Stores stores_;
  Scheduler scheduler_;  // only the thread touches it

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Sequence>> submitted_;
  std::vector<RequestId> cancelled_;
  RequestId last_id_ = 0;
  bool stopping_ = false;
  EngineStats stats_;
  std::string failure_;

  std::thread thread_;  // last: it uses all of the above
};

void Engine::Impl::check_tokens(const std::vector<TokenId>& tokens, const char* param) const {
  for (const TokenId id : tokens)
    if (id < 0 || id >= vocab_)
      throw RequestError(
          concat("token id ", id, " is outside the model's vocabulary of ", vocab_, " tokens"),
          param, "invalid_token");
}

void Engine::Impl::check(const GenerationRequest& request) const {
  if (request.prompt.empty()) throw RequestError("the prompt has no tokens", "prompt");
  check_tokens(request.prompt, "prompt");
  check_tokens(request.forced, "forced");
  if (request.max_tokens < 0)
    throw RequestError(concat("max_tokens must not be negative, got ", request.max_tokens),
                       "max_tokens");
  const auto total = request.prompt.size() + static_cast<std::size_t>(request.max_tokens);
  if (total > static_cast<std::size_t>(max_positions()))
    throw RequestError(
        concat("this model's maximum context length is ", max_positions(), " tokens, but ", total,
               " were requested (", request.prompt.size(), " in the prompt, ", request.max_tokens,
               " for the answer); shorten the prompt or lower max_tokens"),
        "max_tokens", "context_length_exceeded");
  const SamplingParams& s = request.sampling;
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
    throw RequestError(concat("temperature must be a number of at least 0, got ", s.temperature),
                       "temperature");
  if (!(s.top_p >= 0 && s.top_p <= 1))
    throw RequestError(concat("top_p must be between 0 and 1, got ", s.top_p), "top_p");
  for (const auto& [id, bias] : s.logit_bias) check_tokens({id}, "logit_bias");
}

Engine::Engine(const Pack& pack, const Family& family, Backend& backend, Disk& disk,
               Budgets& budgets, const Options& options,
               const std::function<void(std::size_t, std::size_t)>& progress)
    : impl_(std::make_unique<Impl>(pack, family, backend, disk, budgets, options, progress)) {}

Engine::~Engine() = default;

Engine::RequestId Engine::submit(GenerationRequest request) {
  return impl_->submit(std::move(request));
}
void Engine::cancel(RequestId id) { impl_->cancel(id); }
int Engine::max_positions() const { return impl_->max_positions(); }
int Engine::vocab() const { return impl_->vocab(); }
EngineStats Engine::stats() const { return impl_->stats(); }
std::string Engine::failure() const { return impl_->failure(); }

}  // namespace barge
