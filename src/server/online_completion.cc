#include "server/online_completion.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <utility>

#include "core/errors.h"
#include "jobs/completion_response.h"
#include "jobs/hash.h"

namespace barge {
namespace {

namespace asio = boost::asio;
using Json = nlohmann::ordered_json;

std::string event(const Json& data) { return concat("data: ", to_text(data), "\n\n"); }

// Cancelled by whom? Clients that cancel aren't told: it is the engine that ends.
RequestError failure_of(const TextResult& result) {
  if (result.reason == FinishReason::kCancelled)
    return RequestError("The server is stopping. Please try again later.", "", "", 503);
  return RequestError(result.error, "", "", 500);
}

}  // namespace

OnlineCompletion::OnlineCompletion(const ServerOptions& options, const ModelSlot& models,
                                   Metrics& metrics, const asio::any_io_executor& http)
    : options_(options),
      models_(models),
      metrics_(metrics),
      // Shared with wake-ups that are under way to the HTTP thread.
      alarm_(std::make_shared<asio::steady_timer>(http)),
      inbox_(std::make_shared<CompletionInbox>(
          [http, alarm = alarm_] { asio::post(http, [alarm] { alarm->cancel(); }); })) {}

OnlineCompletion::~OnlineCompletion() {
  inbox_->close();
  if (missing_ > 0) models_.cancel(ids_);
  if (started_) count();
}

void OnlineCompletion::start(Endpoint endpoint, std::string_view body,
                             const std::string& request_id) {
  model_ = models_.require();
  request_ = parse_completion(endpoint, parse_json(body), derived_seed(options_.seed, request_id),
                              Streaming::kAllowed);
  request_.model = checked_model(request_.model, options_);
  Generator& generator = *model_->generator;
  if (const std::string failure = generator.failure(); !failure.empty())
    throw RequestError(failure, "", "", 500);
  encode_echoed_prompts(request_, generator);
  for (TextRequest& text : request_.texts) text.urgent = true;  // before lines of batches
  id_ = concat(endpoint == Endpoint::kChatCompletions ? "chatcmpl-" : "cmpl-",
               request_id.substr(request_id.find('_') + 1));
  created_ = std::time(nullptr);
  results_.resize(request_.texts.size());
  const bool in_pieces = request_.stream && !request_.echo && !request_.score_only;
  for (std::size_t choice = 0; choice < request_.texts.size(); ++choice) {
    std::function<void(const TextPiece&)> on_text;
    if (in_pieces)
      on_text = [inbox = inbox_, choice](const TextPiece& piece) {
        inbox->put({.choice = choice,
                    .text = std::string(piece.text),
                    .tokens = {piece.tokens.begin(), piece.tokens.end()}});
      };
    ids_.push_back(generator.submit(request_.texts[choice], std::move(on_text),
                                    [inbox = inbox_, choice](TextResult result) {
                                      inbox->put({.choice = choice, .result = std::move(result)});
                                    }));
    ++missing_;
  }
  started_ = true;
}

asio::awaitable<void> OnlineCompletion::wait(std::chrono::steady_clock::duration longest) {
  if (hung_up_ || !inbox_->empty()) co_return;
  // Wake-ups come to this thread: none can slip in before the wait.
  alarm_->expires_after(longest);
  boost::system::error_code ignored;
  co_await alarm_->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

void OnlineCompletion::hang_up() {
  hung_up_ = true;
  alarm_->cancel();
}

void OnlineCompletion::accept(std::size_t choice, TextResult result) {
  --missing_;
  if (result.reason == FinishReason::kError || result.reason == FinishReason::kCancelled)
    error_ = failure_of(result);
  results_[choice] = std::move(result);
}

void OnlineCompletion::collect() {
  for (CompletionInbox::Event& one : inbox_->take())
    if (one.result) accept(one.choice, std::move(*one.result));
}

std::string OnlineCompletion::events() {
  std::string out;
  if (!chunks_) {
    chunks_.emplace(request_, *model_->generator, id_, created_);
    for (std::size_t choice = 0; choice < results_.size(); ++choice)
      if (const Json first = chunks_->begin(choice); !first.is_null()) out += event(first);
  }
  for (CompletionInbox::Event& one : inbox_->take()) {
    if (!one.result) {
      out += event(chunks_->piece(one.choice, {one.text, one.tokens}));
      continue;
    }
    accept(one.choice, std::move(*one.result));
    if (error_) return out + "event: error\n" + event(error_body(*error_));
    out += event(chunks_->end(one.choice, results_[one.choice]));
    if (missing_ > 0) continue;
    if (request_.include_usage) out += event(chunks_->usage(results_));
    out += "data: [DONE]\n\n";
  }
  return out;
}

void OnlineCompletion::count() const {
  if (!finished() || error_) {
    for (std::size_t i = 0; i < results_.size(); ++i)
      metrics_.choice_ended(error_ ? "error" : "abort");
    return;
  }
  for (const TextResult& result : results_) metrics_.choice_ended(reason_name(result.reason));
  metrics_.completion_took(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count());
}

ApiReply OnlineCompletion::answer() const {
  if (error_) throw *error_;
  return {.text = to_text(completion_body(request_, results_, *model_->generator, id_, created_))};
}

}  // namespace barge
