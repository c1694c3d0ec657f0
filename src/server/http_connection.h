#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/api.h"
#include "server/data_directory.h"
#include "server/held_body.h"
#include "server/http_limits.h"

namespace barge {

/// HTTP/1.1 on one socket: one request after another, an answer to each. Coroutines of the HTTP
/// thread; they throw boost::system::system_error where the client is gone or slower than the
/// limits allow.
class HttpConnection {
 public:
  using HeaderParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  template <typename T = void>
  using Awaitable = boost::asio::awaitable<T>;

  /// `limits` must outlive it.
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpLimits& limits)
      : stream_(std::move(socket)),
        limits_(limits),
        buffer_(limits.max_header_bytes + kChunkBytes) {}

  /// The next request's line and headers into `parser`; false: there is none. Throws RequestError
  /// for what isn't HTTP or could be understood in two ways: answer, drain and end.
  Awaitable<bool> read_header(HeaderParser& parser);
  static bool has_body(const HeaderParser& parser) {
    return parser.chunked() || parser.content_length().value_or(0) > 0;
  }
  /// A body that is kept in memory, of which `held` counts the bytes as they come. Throws
  /// RequestError if it is too large, of itself or beside others, or badly framed.
  Awaitable<std::string> read_body(HeaderParser& header, HeldBody& held);
  /// A body of any length, given to `take` piece by piece, which may throw. Throws RequestError
  /// for bad framing.
  Awaitable<> read_body(HeaderParser& header, const std::function<void(std::string_view)>& take);

  Awaitable<> send(const ApiReply& reply);
  /// Begins a stream of server-sent events.
  Awaitable<> begin_events();
  Awaitable<> send_events(const std::string& text);
  Awaitable<> end_events();

  /// Some of the request's body may not have been read: the connection ends behind the answer.
  void give_up() { keep_alive_ = false; }
  /// After `give_up` and the answer. Clients read an answer only when their body is sent: closing
  /// at once would lose it for them.
  Awaitable<> drain();
  bool keeps_alive() const { return keep_alive_; }
  void shut_down();

  /// Calls `gone`, on the HTTP thread, if the client closes its side before `unwatch`.
  void watch(std::function<void()> gone);
  void unwatch();

  /// Of the request that is being answered: "req_" and digits.
  const std::string& request_id() const { return id_; }
  int status() const { return status_; }  // of the last answer
  boost::asio::any_io_executor executor() { return stream_.get_executor(); }

 private:
  Awaitable<std::size_t> receive_header();
  Awaitable<> answer_expectation(const HeaderParser& parser);
  Awaitable<> send_file(const std::filesystem::path& path);
  template <typename Body>
  Awaitable<> write(boost::beast::http::response<Body>& response);
  template <typename Body>
  void fill(boost::beast::http::response<Body>& response, int status, std::string_view type);
  std::string_view unread() const;

  boost::beast::tcp_stream stream_;
  const HttpLimits& limits_;
  boost::beast::flat_buffer buffer_;
  std::string id_ = random_id("req_");
  int status_ = 0;
  bool keep_alive_ = false;
  bool head_only_ = false;  // no body may follow the answer's header
  bool chunked_ = true;     // the client knows chunks: HTTP/1.1
  /// Shared with a wait that may outlive this; null: nobody watches.
  std::shared_ptr<std::function<void()>> gone_;

  static constexpr std::size_t kChunkBytes = 128 << 10;
};

}  // namespace barge
