#pragma once

#include <algorithm>
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
/// are bytes. Works in sweeps of a few requests on a thread of its own, as an engine does. Where
/// pieces are wanted, a request's first four letters come at once, also while it is paused.
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

  RequestId submit(const TextRequest& request, std::function<void(const TextPiece&)> on_text,
                   std::function<void(TextResult)> done) override {
    const std::string prompt = prompt_text(request);
    if (prompt.find("TOO LONG") != std::string::npos)
      throw RequestError("This model's maximum context length is 64 tokens.", "messages",
                         "context_length_exceeded");
    if (on_submit) on_submit(prompt);
    const std::lock_guard lock(mutex_);
    waiting_.push_back({++last_id_, request, std::move(on_text), std::move(done)});
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
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const override {
    std::vector<TokenId> ids;
    if (adds_bos && options.add_special) ids.push_back('^');
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) text += piece(id);
    return text;
  }
  std::string piece(TokenId id) const override { return std::string(1, static_cast<char>(id)); }
  std::string render(const nlohmann::json& messages, bool begins_answer) const override {
    return messages.dump() + (begins_answer ? ">" : "");
  }
  TokenizerInfo tokenizer_info() const override {
    return {.eos_token = "$", .chat_template = "{{ messages }}", .vocab_size = 256};
  }

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
  bool adds_bos = false;                                     // likewise: to texts that are encoded

 private:
  struct Job {
    RequestId id;
    TextRequest request;
    std::function<void(const TextPiece&)> on_text;
    std::function<void(TextResult)> done;
    bool cancelled = false, begun = false;
  };
  using Calls = std::vector<std::function<void()>>;  // to be made without the lock
  static constexpr std::size_t kFirstPiece = 4;

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

  static void tell(const Job& job, std::size_t begin, std::size_t end) {
    const std::string whole = answer(job.request);
    if (whole.size() <= begin) return;
    const std::string text = whole.substr(begin, end - begin);
    std::vector<SampledToken> tokens;
    if (job.request.sampling.logprobs >= 0)
      for (const char c : text) tokens.push_back(token(c));
    job.on_text({text, tokens});
  }

  // Those that have said nothing yet.
  Calls begin_all() {
    Calls calls;
    for (Job& job : waiting_)
      if (job.on_text && !std::exchange(job.begun, true) && !job.cancelled)
        calls.push_back([job] { tell(job, 0, kFirstPiece); });
    return calls;
  }

  // Who may end now.
  std::deque<Job>::iterator next() {
    if (num_done_ < pause_at_ || ending_) return waiting_.begin();
    return std::find_if(waiting_.begin(), waiting_.end(), [](const Job& j) { return j.cancelled; });
  }
  bool has_news() const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [](const Job& job) { return job.on_text && !job.begun; });
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || has_news() || next() != waiting_.end(); });
      if (waiting_.empty()) return;
      Calls calls = begin_all();
      for (std::size_t i = 0; i < options_.per_sweep && next() != waiting_.end(); ++i) {
        if (num_done_ >= options_.fail_after)
          failure_ = "cannot read the weights: the disk is gone";
        const auto job = next();
        calls.push_back([this, job = *job, result = make(*job)] {
          if (before_done) before_done();
          if (job.on_text &&
              (result.reason == FinishReason::kStop || result.reason == FinishReason::kLength))
            tell(job, kFirstPiece, result.text.size());
          job.done(result);
        });
        waiting_.erase(job);
        ++num_done_;
      }
      lock.unlock();
      for (const auto& call : calls) call();
      lock.lock();
    }
  }

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
