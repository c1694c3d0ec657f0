#include "server/session.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/io_error.h"
#include "core/log.h"
#include "server/browser_guard.h"
#include "server/file_upload.h"
#include "server/http_connection.h"
#include "server/on_pool.h"
#include "server/online_completion.h"

namespace barge {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::int64_t kFormBytes = 1 << 20;  // what a form may have around its file
// A stream that has nothing to say says so: proxies and clients end connections that are silent.
constexpr auto kHeartbeat = std::chrono::seconds(15);
constexpr auto kRefusalTimeout = std::chrono::seconds(2);
constexpr std::size_t kLoggedBytes = 2000;  // of a body, with --log-requests
constexpr const char* kComment = ": still at work\n\n";

// What a log line may show of a body, whatever is in it.
std::string on_one_line(std::string_view text) {
  using nlohmann::json;
  const bool is_whole = text.size() <= kLoggedBytes;
  return json(text.substr(0, kLoggedBytes)).dump(-1, ' ', true, json::error_handler_t::replace) +
         (is_whole ? "" : concat(" and ", text.size() - kLoggedBytes, " bytes more"));
}

// Temporaries stay out of expressions with co_await: g++ 12 destroys some of them too early.
class Session {
 public:
  Session(asio::ip::tcp::socket socket, SessionContext context)
      : connection_(std::move(socket), context.options.limits), context_(context) {}

  asio::awaitable<void> run() {
    // `while (co_await …)` alone makes a frame that g++ 12 lays out wrongly.
    for (bool more = true; more;) more = co_await serve_one();
    connection_.shut_down();
  }

 private:
  using HeaderParser = HttpConnection::HeaderParser;

  // False: the connection is over.
  asio::awaitable<bool> serve_one() {
    HeaderParser parser;
    HeldBody held(context_.held_bytes, context_.options.limits.max_held_bytes);
    ApiRequest request{"-", "-", {}, {}};  // of what can't be read
    auto began = std::chrono::steady_clock::now();
    std::optional<ApiReply> reply;  // none: it was sent
    bool refused_body = true;
    try {
      const bool came = co_await connection_.read_header(parser);
      if (!came) co_return false;
      began = std::chrono::steady_clock::now();
      request = taken_apart(parser);
      // Some of it may not be read where this or what follows fails.
      refused_body = HttpConnection::has_body(parser);
      check_site(parser.get(), context_.api.trusts_this_machine());
      const auto endpoint = Api::completion_endpoint(request);
      // Before the body: who may not ask need not send it.
      std::string owner;
      if (refused_body || endpoint) owner = context_.api.authorize(request.authorization);
      if (Api::is_upload(request) && refused_body) {
        reply = co_await upload(parser, owner);
      } else {
        request.body = co_await connection_.read_body(parser, held);
        if (endpoint)
          reply = co_await complete(*endpoint, request.body);
        else
          reply = co_await handle(request);
      }
      refused_body = false;
    } catch (const RequestError& problem) {
      reply = error_reply(problem);
    } catch (const DiskFull& problem) {
      log::error(concat(request.method, ' ', request.target, ": ", problem.what()));
      reply = error_reply(disk_is_full());
    } catch (const IoError& problem) {
      log::error(concat(request.method, ' ', request.target, ": ", problem.what()));
      reply = error_reply(RequestError("The server could not store the upload.", "", "", 500));
    }
    if (refused_body) connection_.give_up();
    if (reply) co_await connection_.send(*reply);
    note(request, began);
    if (refused_body) co_await connection_.drain();
    co_return connection_.keeps_alive();
  }

  static ApiRequest taken_apart(const HeaderParser& parser) {
    const auto& header = parser.get();
    return {std::string(header.method_string()),
            std::string(header.target()),
            std::string(header[http::field::authorization]),
            {},
            std::string(header[http::field::if_none_match])};
  }

  // Reading, which clients do again and again, is told only to those who debug.
  void note(const ApiRequest& request, std::chrono::steady_clock::time_point began) {
    const int status = connection_.status();
    context_.metrics.answered(status);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    const std::string line = concat(connection_.request_id(), ' ', request.method, ' ',
                                    request.path(), ' ', status, " after ", took.count(), " s");
    if (request.method == "GET" && status < 400)
      log::debug(line);
    else
      log::info(line);
    if (context_.options.log_requests && !request.body.empty())
      log::info(concat(connection_.request_id(), " asked ", on_one_line(request.body)));
  }

  asio::awaitable<ApiReply> handle(const ApiRequest& request) {
    ApiReply reply;
    const std::function<void()> work = [&] { reply = context_.api.handle(request); };
    if (Api::is_quick(request))
      work();
    else
      co_await on_pool(context_.pool, work);
    co_return reply;
  }

  asio::awaitable<ApiReply> upload(HeaderParser& header, const std::string& owner) {
    const std::int64_t max_bytes = context_.options.max_file_bytes;
    FileUpload file(context_.directory, context_.quota, header.get()[http::field::content_type],
                    max_bytes, owner);
    if (header.content_length().value_or(0) > static_cast<std::uint64_t>(max_bytes + kFormBytes))
      throw RequestError(concat("File is too large. The limit is ", max_bytes, " bytes."), "file",
                         "file_too_large", 413);
    std::int64_t total = 0;
    const std::function<void(std::string_view)> take = [&](std::string_view bytes) {
      total += static_cast<std::int64_t>(bytes.size());
      if (total > max_bytes + kFormBytes)
        throw RequestError("The form is too large.", "", "file_too_large", 413);
      file.push(bytes);
    };
    co_await connection_.read_body(header, take);
    ApiReply reply;
    const std::function<void()> work = [&] {  // fsync of a large file takes seconds
      try {
        reply.body = file_json(file.finish(context_.store, context_.options.now()));
      } catch (const RequestError& problem) {
        reply = error_reply(problem);  // the body was read: the connection goes on
      }
    };
    co_await on_pool(context_.pool, work);
    co_return reply;
  }

  // None: the answer was streamed.
  asio::awaitable<std::optional<ApiReply>> complete(Endpoint endpoint, const std::string& body) {
    OnlineCompletion completion(context_.options, context_.models, context_.metrics,
                                connection_.executor());
    std::optional<ApiReply> refusal;
    const auto attempt = [&](const auto& step) {
      try {
        step();
      } catch (const RequestError& problem) {
        refusal = error_reply(problem);
      } catch (const std::exception& problem) {
        log::error(concat(connection_.request_id(), ": ", problem.what()));
        refusal = error_reply(RequestError("The server had an error.", "", "", 500));
      }
    };
    const std::function<void()> begin = [&] {
      attempt([&] { completion.start(endpoint, body, connection_.request_id()); });
    };
    co_await on_pool(context_.pool, begin);
    if (refusal) co_return refusal;
    connection_.watch([&] { completion.hang_up(); });
    if (completion.streams()) {
      co_await stream(completion);
    } else {
      while (!completion.finished() && !completion.hung_up()) {
        co_await completion.wait(std::chrono::hours(24));
        completion.collect();
      }
    }
    connection_.unwatch();
    if (completion.hung_up())
      log::info(
          concat(connection_.request_id(), ": the client went away, its request was cancelled"));
    if (completion.hung_up()) throw boost::system::system_error(asio::error::connection_reset);
    if (completion.streams()) co_return std::nullopt;
    ApiReply reply;
    const std::function<void()> end = [&] { attempt([&] { reply = completion.answer(); }); };
    co_await on_pool(context_.pool, end);
    co_return refusal ? refusal : std::optional(reply);
  }

  asio::awaitable<void> stream(OnlineCompletion& completion) {
    co_await connection_.begin_events();
    while (!completion.hung_up()) {
      std::string text = completion.events();
      const bool last = completion.finished();
      if (!text.empty()) co_await connection_.send_events(text);
      if (last) break;
      const auto begin = std::chrono::steady_clock::now();
      co_await completion.wait(kHeartbeat);
      if (std::chrono::steady_clock::now() - begin >= kHeartbeat)
        co_await connection_.send_events(kComment);
    }
    if (!completion.hung_up()) co_await connection_.end_events();
  }

  HttpConnection connection_;
  SessionContext context_;
};

}  // namespace

asio::awaitable<void> refuse_connection(asio::ip::tcp::socket socket, SessionContext context) {
  try {
    HttpLimits limits = context.options.limits;
    limits.drain_timeout = limits.pace_time = kRefusalTimeout;
    HttpConnection connection(std::move(socket), limits);
    const ApiReply reply = error_reply(RequestError(
        concat("The server has ", limits.max_connections, " connections already."), "", "", 503));
    context.metrics.answered(reply.status);
    co_await connection.send(reply);
    co_await connection.drain();
  } catch (const std::exception&) {
    // Nobody is left to be told.
  }
}

asio::awaitable<void> serve_connection(asio::ip::tcp::socket socket, SessionContext context) {
  try {
    Session session(std::move(socket), context);
    co_await session.run();
  } catch (const boost::system::system_error&) {
    // The client went away: nobody is left to be told.
  } catch (const std::exception& error) {
    log::error(concat("a connection ended: ", error.what()));
  }
}

}  // namespace barge
