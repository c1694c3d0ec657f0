#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/completion_chunks.h"
#include "jobs/completion_request.h"
#include "server/api.h"
#include "server/completion_inbox.h"
#include "server/metrics.h"
#include "server/model_slot.h"

namespace barge {

/// One POST /v1/completions or /v1/chat/completions, from its body to its answer. Lives on the HTTP
/// thread; `start` and `answer` take long and may be called on another one while nobody else calls.
/// Destroying it cancels what still runs, and counts how its choices ended. After `start` come
/// calls of `wait`, after each `collect` or, of a stream, `events`, until it is finished.
class OnlineCompletion {
 public:
  /// References must outlive it. `http` runs on the HTTP thread.
  OnlineCompletion(const ServerOptions& options, const ModelSlot& models, Metrics& metrics,
                   const boost::asio::any_io_executor& http);
  ~OnlineCompletion();
  OnlineCompletion(const OnlineCompletion&) = delete;
  OnlineCompletion& operator=(const OnlineCompletion&) = delete;

  /// Reads `body` and hands its texts to the generator. Throws RequestError.
  void start(Endpoint endpoint, std::string_view body, const std::string& request_id);
  bool streams() const { return request_.stream; }

  /// Until something came from the generator, the client has hung up, or that long has passed.
  boost::asio::awaitable<void> wait(std::chrono::steady_clock::duration longest);
  void hang_up();
  bool hung_up() const { return hung_up_; }
  /// Nothing more will come.
  bool finished() const { return missing_ == 0 || error_; }

  /// The whole answer. Throws RequestError where the generator failed.
  ApiReply answer() const;
  /// Takes in what is new; of a stream instead:
  void collect();
  /// What is new, as server-sent events; perhaps nothing. The last of a stream is [DONE], or an
  /// event named error.
  std::string events();

 private:
  void accept(std::size_t choice, TextResult result);
  void count() const;

  const ServerOptions& options_;
  const ModelSlot& models_;
  Metrics& metrics_;
  const std::shared_ptr<boost::asio::steady_timer> alarm_;
  const std::shared_ptr<CompletionInbox> inbox_;
  std::shared_ptr<const ServedModel> model_;  // from `start` on
  CompletionRequest request_;
  std::string id_;
  std::int64_t created_ = 0;
  std::vector<Generator::RequestId> ids_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool started_ = false;
  std::vector<TextResult> results_;
  std::size_t missing_ = 0;
  std::optional<RequestError> error_;
  std::optional<CompletionChunks> chunks_;  // of a stream, once it has begun
  bool hung_up_ = false;
};

}  // namespace barge
