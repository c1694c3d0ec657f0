#include "server/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "core/log.h"
#include "jobs/completion_response.h"
#include "server/http_framing.h"

namespace barge {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using beast::error_code;

constexpr auto kDrainSilence = std::chrono::seconds(10);  // who says nothing has nothing to send

// Moves a transfer's deadline on as long as enough bytes pass.
class Pace {
 public:
  Pace(beast::tcp_stream& stream, const HttpLimits& limits) : stream_(stream), limits_(limits) {
    stream_.expires_after(limits_.pace_time);
  }
  void passed(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ < limits_.pace_bytes) return;
    bytes_ = 0;
    stream_.expires_after(limits_.pace_time);
  }

 private:
  beast::tcp_stream& stream_;
  const HttpLimits& limits_;
  std::size_t bytes_ = 0;
};

// Bad framing gets an answer, a lost connection ends the session.
[[noreturn]] void fail_body(error_code error) {
  if (error.category() == make_error_code(http::error::bad_chunk).category() &&
      error != http::error::partial_message && error != http::error::end_of_stream)
    throw RequestError(concat("The body of the HTTP request can't be read: ", error.message()));
  throw boost::system::system_error(error);
}

// A value with a line end in it would begin another field, or the body.
const std::string& checked_value(const std::string& value) {
  for (const char c : value)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw Error("a header field of an answer has a control character in it");
  return value;
}

}  // namespace

// Temporaries stay out of expressions with co_await: g++ 12 destroys some of them too early.

asio::awaitable<bool> HttpConnection::read_header(HeaderParser& parser) {
  id_ = random_id("req_");
  keep_alive_ = false;
  head_only_ = false;
  const std::size_t bytes = co_await receive_header();
  if (bytes == 0) co_return false;
  const std::string_view raw = unread().substr(0, bytes);
  parser.header_limit(static_cast<std::uint32_t>(limits_.max_header_bytes));
  parser.body_limit(boost::none);  // checked later, where an answer can be given
  error_code error;
  parser.put(asio::buffer(raw), error);
  if (error) throw RequestError(concat("The HTTP request can't be read: ", error.message(), '.'));
  const auto& header = parser.get();
  check_framing(raw, header, limits_);
  buffer_.consume(bytes);
  keep_alive_ = header.keep_alive();
  head_only_ = header.method() == http::verb::head;
  chunked_ = header.version() >= 11;
  co_return true;
}

std::string_view HttpConnection::unread() const {
  const auto bytes = buffer_.cdata();
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

// Until the empty line that ends them: how many bytes it takes with that; 0: the client is gone.
asio::awaitable<std::size_t> HttpConnection::receive_header() {
  static constexpr std::string_view kEnd = "\r\n\r\n";
  static constexpr std::size_t kPieceBytes = 4096;
  const bool is_idle = buffer_.size() == 0;
  if (is_idle) buffer_.shrink_to_fit();  // there may be thousands that wait
  stream_.expires_after(is_idle ? limits_.idle_timeout : limits_.header_timeout);
  for (std::size_t scanned = 0;;) {
    const std::size_t end = unread().find(kEnd, scanned);
    const std::size_t bytes = end == std::string_view::npos ? unread().size() : end + kEnd.size();
    if (bytes > limits_.max_header_bytes ||
        (end == std::string_view::npos && bytes == limits_.max_header_bytes))
      throw RequestError(concat("The HTTP request can't be read: its header is larger than ",
                                limits_.max_header_bytes, " bytes."),
                         "", "", 431);
    if (end != std::string_view::npos) co_return bytes;
    scanned = bytes - std::min(bytes, kEnd.size() - 1);
    const bool is_first = bytes == 0;
    const auto room = buffer_.prepare(std::min(kPieceBytes, limits_.max_header_bytes - bytes));
    error_code error;
    const std::size_t got =
        co_await stream_.async_read_some(room, redirect_error(use_awaitable, error));
    if (error) co_return 0;
    buffer_.commit(got);
    if (is_first) stream_.expires_after(limits_.header_timeout);
  }
}

// Clients that send a large body ask first; others don't wait for this.
asio::awaitable<void> HttpConnection::answer_expectation(const HeaderParser& parser) {
  if (!chunked_ || !beast::iequals(parser.get()[http::field::expect], "100-continue")) co_return;
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  stream_.expires_after(limits_.pace_time);
  co_await asio::async_write(stream_, asio::buffer(kContinue), use_awaitable);
}

asio::awaitable<std::string> HttpConnection::read_body(HeaderParser& header, HeldBody& held) {
  const auto too_large = [&] {
    return RequestError(concat("The request is larger than ", limits_.max_json_bytes, " bytes."),
                        "", "", 413);
  };
  if (header.content_length().value_or(0) > limits_.max_json_bytes) throw too_large();
  if (has_body(header)) co_await answer_expectation(header);
  http::request_parser<http::string_body> parser(std::move(header));
  parser.body_limit(limits_.max_json_bytes);
  Pace pace(stream_, limits_);
  while (!parser.is_done()) {
    error_code error;
    const std::size_t bytes = co_await http::async_read_some(stream_, buffer_, parser,
                                                             redirect_error(use_awaitable, error));
    if (error == http::error::body_limit) throw too_large();
    if (error) fail_body(error);
    held.grow_to(parser.get().body().size());
    pace.passed(bytes);
  }
  co_return std::move(parser.get().body());
}

asio::awaitable<void> HttpConnection::read_body(HeaderParser& header,
                                                const std::function<void(std::string_view)>& take) {
  co_await answer_expectation(header);
  http::request_parser<http::buffer_body> parser(std::move(header));
  parser.body_limit(boost::none);
  std::vector<char> chunk(kChunkBytes);
  Pace pace(stream_, limits_);
  while (!parser.is_done()) {
    parser.get().body().data = chunk.data();
    parser.get().body().size = chunk.size();
    error_code error;
    const std::size_t bytes = co_await http::async_read_some(stream_, buffer_, parser,
                                                             redirect_error(use_awaitable, error));
    if (error && error != http::error::need_buffer) fail_body(error);
    pace.passed(bytes);
    take({chunk.data(), chunk.size() - parser.get().body().size});
  }
}

asio::awaitable<void> HttpConnection::send(const ApiReply& reply) {
  if (reply.file) {
    co_await send_file(*reply.file);
    co_return;
  }
  http::response<http::string_body> response;
  fill(response, reply.status, reply.content_type);
  for (const auto& [name, value] : reply.headers) response.set(name, checked_value(value));
  response.body() = reply.text ? *reply.text : to_text(reply.body);
  response.prepare_payload();
  co_await write(response);
}

asio::awaitable<void> HttpConnection::send_file(const std::filesystem::path& path) {
  http::response<http::file_body> response;
  error_code error;
  response.body().open(path.c_str(), beast::file_mode::scan, error);
  if (error) {
    log::error(concat("cannot open ", path.string(), ": ", error.message()));
    const ApiReply reply = error_reply(RequestError("The file could not be read.", "", "", 500));
    co_await send(reply);
    co_return;
  }
  fill(response, 200, "application/octet-stream");
  response.prepare_payload();
  co_await write(response);
}

template <typename Body>
asio::awaitable<void> HttpConnection::write(http::response<Body>& response) {
  http::response_serializer<Body> serializer(response);
  Pace pace(stream_, limits_);
  if (head_only_) {
    co_await http::async_write_header(stream_, serializer, use_awaitable);
    co_return;
  }
  while (!serializer.is_done()) {
    const std::size_t bytes = co_await http::async_write_some(stream_, serializer, use_awaitable);
    pace.passed(bytes);
  }
}

asio::awaitable<void> HttpConnection::begin_events() {
  http::response<http::empty_body> response;
  keep_alive_ = keep_alive_ && chunked_;  // else the end of the connection is that of the answer
  fill(response, 200, "text/event-stream; charset=utf-8");
  response.set(http::field::cache_control, "no-cache");
  response.chunked(chunked_);
  http::response_serializer<http::empty_body> serializer(response);
  stream_.expires_after(limits_.pace_time);
  co_await http::async_write_header(stream_, serializer, use_awaitable);
}

asio::awaitable<void> HttpConnection::send_events(const std::string& text) {
  stream_.expires_after(limits_.pace_time);
  if (chunked_) {
    const auto chunk = http::make_chunk(asio::buffer(text));
    co_await asio::async_write(stream_, chunk, use_awaitable);
  } else {
    co_await asio::async_write(stream_, asio::buffer(text), use_awaitable);
  }
}

asio::awaitable<void> HttpConnection::end_events() {
  if (!chunked_) co_return;
  stream_.expires_after(limits_.pace_time);
  const auto last = http::make_chunk_last();
  co_await asio::async_write(stream_, last, use_awaitable);
}

asio::awaitable<void> HttpConnection::drain() {
  error_code error;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  std::vector<char> chunk(kChunkBytes);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limits_.drain_timeout;
  for (std::uint64_t total = 0; !error && total < limits_.max_drain_bytes;) {
    stream_.expires_at(std::min(end, Clock::now() + kDrainSilence));
    total +=
        co_await stream_.async_read_some(asio::buffer(chunk), redirect_error(use_awaitable, error));
  }
}

void HttpConnection::shut_down() {
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

void HttpConnection::watch(std::function<void()> gone) {
  gone_ = std::make_shared<std::function<void()>>(std::move(gone));
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                              [this, watched = std::weak_ptr(gone_)](const error_code& error) {
                                const auto call = watched.lock();
                                if (error || !call) return;
                                char byte = 0;
                                const ssize_t got = recv(stream_.socket().native_handle(), &byte, 1,
                                                         MSG_PEEK | MSG_DONTWAIT);
                                const bool nothing_yet =
                                    got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
                                if (got > 0 || nothing_yet)
                                  return;  // the next request came early: it can wait
                                (*call)();
                              });
}

void HttpConnection::unwatch() {
  gone_.reset();
  error_code ignored;
  stream_.socket().cancel(ignored);
}

template <typename Body>
void HttpConnection::fill(http::response<Body>& response, int status, std::string_view type) {
  status_ = status;
  response.version(11);
  response.result(static_cast<unsigned>(status));
  response.set(http::field::server, "barge");
  response.set(http::field::content_type, type);
  response.set("x-request-id", id_);
  response.keep_alive(keep_alive_);
}

}  // namespace barge
