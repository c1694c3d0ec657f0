#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "engine/generator.h"
#include "jobs/hash.h"

namespace barge::test {

/// A generator without a model: the answer follows from prompt, seed and choice alone. Its tokens
/// are bytes. Works in sweeps of a few requests on a thread of its own, as an engine does.
class FakeGenerator final : public Generator {
 public:
  static constexpr auto kNever = ~std::size_t{0};
  struct Options {
    std::size_t per_sweep = 3;        // requests that end in one sweep
    std::size_t fail_after = kNever;  // requests, then the engine is broken
  };

  FakeGenerator() : FakeGenerator(Options()) {}
  explicit FakeGenerator(Options options) : options_(options), thread_([this] { work(); }) {}
  ~FakeGenerator() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  RequestId submit(const TextRequest& request, std::function<void(std::string_view)>,
                   std::function<void(TextResult)> done) override {
    const std::string prompt = prompt_text(request);
    if (prompt.find("TOO LONG") != std::string::npos)
      throw RequestError("This model's maximum context length is 64 tokens.", "messages",
                         "context_length_exceeded");
    if (on_submit) on_submit(prompt);
    const std::lock_guard lock(mutex_);
    waiting_.push_back({++last_id_, request, std::move(done)});
    changed_.notify_all();
    return last_id_;
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    for (Job& job : waiting_)
      if (job.id == id) job.cancelled = true;
    changed_.notify_all();
  }

  std::string failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) text += piece(id);
    return text;
  }
  std::string piece(TokenId id) const override { return std::string(1, static_cast<char>(id)); }

  /// After `count` more requests it keeps silent, but for those that are cancelled.
  void pause_after(std::size_t count) {
    const std::lock_guard lock(mutex_);
    pause_at_ = num_done_ + count;
  }
  void resume() {
    const std::lock_guard lock(mutex_);
    pause_at_ = kNever;
    changed_.notify_all();
  }
  std::size_t num_waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

  /// The answer that `request` gets.
  static std::string answer(const TextRequest& request) {
    const std::uint64_t prompt = hash128(prompt_text(request)).low;
    const std::uint64_t seed = request.sampling.seed;
    const std::uint64_t key = mix64(mix64(prompt ^ mix64(seed)) + request.sampling.choice);
    std::string text = Hash128{key, mix64(key)}.hex();
    if (request.max_tokens && *request.max_tokens < 32) text.resize(*request.max_tokens);
    return text;
  }

  std::function<void(const std::string& prompt)> on_submit;  // set before the first request
  std::function<void()> before_done;                         // likewise; on the fake's thread

 private:
  struct Job {
    RequestId id;
    TextRequest request;
    std::function<void(TextResult)> done;
    bool cancelled = false;
  };

  static std::string prompt_text(const TextRequest& request) {
    if (const auto* text = std::get_if<std::string>(&request.prompt)) return *text;
    if (const auto* json = std::get_if<nlohmann::json>(&request.prompt)) return json->dump();
    std::string text;
    for (const TokenId id : std::get<std::vector<TokenId>>(request.prompt))
      text += static_cast<char>(id);
    return text;
  }

  TextResult make(const Job& job) const {
    TextResult result;
    if (!failure_.empty()) return {.reason = FinishReason::kError, .error = failure_};
    if (job.cancelled || ending_) return {.reason = FinishReason::kCancelled};
    const std::string prompt = prompt_text(job.request);
    if (prompt.find("EXPLODE") != std::string::npos)
      return {.reason = FinishReason::kError, .error = "the sampler lost its dice"};
    result.text = answer(job.request);
    result.reason = result.text.size() < 32 ? FinishReason::kLength : FinishReason::kStop;
    result.prompt_tokens = static_cast<int>(prompt.size());
    result.completion_tokens = static_cast<int>(result.text.size());
    result.logits_hash = hash128(result.text).low;
    if (job.request.sampling.logprobs >= 0)
      for (const char c : result.text) result.tokens.push_back(token(c));
    if (job.request.prompt_logprobs)
      for (std::size_t i = 1; i < prompt.size(); ++i)
        result.prompt_logprobs.push_back(token(prompt[i]));
    return result;
  }
  // Likelihood by letter; the letter after it is the likeliest.
  static SampledToken token(char c) {
    const auto id = static_cast<unsigned char>(c);
    return {.id = id, .logprob = -0.125f * (id % 16) - 1, .top = {{id + 1, -0.5f}}};
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || (!waiting_.empty() && may_run()); });
      if (waiting_.empty()) return;
      std::vector<std::pair<std::function<void(TextResult)>, TextResult>> ended;
      for (std::size_t i = 0; i < options_.per_sweep && !waiting_.empty() && may_run(); ++i) {
        if (num_done_ >= options_.fail_after)
          failure_ = "cannot read the weights: the disk is gone";
        ended.emplace_back(std::move(waiting_.front().done), make(waiting_.front()));
        waiting_.pop_front();
        ++num_done_;
      }
      lock.unlock();
      for (auto& [done, result] : ended) {
        if (before_done) before_done();
        done(std::move(result));
      }
      lock.lock();
    }
  }
  bool may_run() const { return num_done_ < pause_at_ || waiting_.front().cancelled || ending_; }

  Options options_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  RequestId last_id_ = 0;
  std::size_t num_done_ = 0, pause_at_ = kNever;
  std::string failure_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace barge::test
