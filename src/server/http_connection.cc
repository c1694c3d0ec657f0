#include "server/http_connection.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "core/log.h"
#include "jobs/completion_response.h"

namespace barge {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using beast::error_code;
using std::chrono::seconds;

constexpr auto kIdleTimeout = seconds(75);      // between requests and while headers come
constexpr auto kTransferTimeout = seconds(60);  // without a byte of a body or an answer
constexpr auto kDrainTimeout = seconds(30);     // for the rest of a body that was refused
constexpr std::uint64_t kMaxDrainBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{16} << 20;

// Bad framing gets an answer, a lost connection ends the session.
[[noreturn]] void fail_body(error_code error) {
  if (error.category() == make_error_code(http::error::bad_chunk).category() &&
      error != http::error::partial_message && error != http::error::end_of_stream)
    throw RequestError(concat("The body of the HTTP request can't be read: ", error.message()));
  throw boost::system::system_error(error);
}

}  // namespace

// Temporaries stay out of expressions with co_await: g++ 12 destroys some of them too early.

asio::awaitable<bool> HttpConnection::read_header(HeaderParser& parser) {
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(boost::none);  // checked later, where an answer can be given
  stream_.expires_after(kIdleTimeout);
  error_code error;
  co_await http::async_read_header(stream_, buffer_, parser, redirect_error(use_awaitable, error));
  id_ = random_id("req_");
  keep_alive_ = false;
  head_only_ = false;
  if (error) {
    co_await answer_broken_header(error);
    co_return false;
  }
  const auto& header = parser.get();
  keep_alive_ = header.keep_alive();
  head_only_ = header.method() == http::verb::head;
  chunked_ = header.version() >= 11;
  co_return true;
}

asio::awaitable<void> HttpConnection::answer_broken_header(error_code error) {
  if (error == http::error::end_of_stream || error == beast::error::timeout) co_return;
  if (error.category() != make_error_code(http::error::bad_method).category()) co_return;
  const ApiReply reply =
      error_reply(RequestError(concat("The HTTP request can't be read: ", error.message(), '.'), "",
                               "", error == http::error::header_limit ? 431 : 400));
  co_await send(reply);
  co_await drain();
}

// Clients that send a large body ask first; others don't wait for this.
asio::awaitable<void> HttpConnection::answer_expectation(const HeaderParser& parser) {
  if (!beast::iequals(parser.get()[http::field::expect], "100-continue")) co_return;
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  stream_.expires_after(kTransferTimeout);
  co_await asio::async_write(stream_, asio::buffer(kContinue), use_awaitable);
}

asio::awaitable<std::string> HttpConnection::read_body(HeaderParser& header) {
  const auto too_large = [] {
    return RequestError(concat("The request is larger than ", kMaxJsonBytes, " bytes."), "", "",
                        413);
  };
  if (header.content_length().value_or(0) > kMaxJsonBytes) throw too_large();
  if (has_body(header)) co_await answer_expectation(header);
  http::request_parser<http::string_body> parser(std::move(header));
  parser.body_limit(kMaxJsonBytes);
  stream_.expires_after(kTransferTimeout);
  error_code error;
  co_await http::async_read(stream_, buffer_, parser, redirect_error(use_awaitable, error));
  if (error == http::error::body_limit) throw too_large();
  if (error) fail_body(error);
  co_return std::move(parser.get().body());
}

asio::awaitable<void> HttpConnection::read_body(HeaderParser& header,
                                                const std::function<void(std::string_view)>& take) {
  co_await answer_expectation(header);
  http::request_parser<http::buffer_body> parser(std::move(header));
  parser.body_limit(boost::none);
  std::vector<char> chunk(kChunkBytes);
  while (!parser.is_done()) {
    parser.get().body().data = chunk.data();
    parser.get().body().size = chunk.size();
    stream_.expires_after(kTransferTimeout);
    error_code error;
    co_await http::async_read_some(stream_, buffer_, parser, redirect_error(use_awaitable, error));
    if (error && error != http::error::need_buffer) fail_body(error);
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
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  response.body() = reply.text ? *reply.text : to_text(reply.body);
  response.prepare_payload();
  if (head_only_) response.body().clear();  // its length stays in the header
  stream_.expires_after(kTransferTimeout);
  co_await http::async_write(stream_, response, use_awaitable);
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
  http::response_serializer<http::file_body> serializer(response);
  if (head_only_) {
    stream_.expires_after(kTransferTimeout);
    co_await http::async_write_header(stream_, serializer, use_awaitable);
    co_return;
  }
  while (!serializer.is_done()) {
    stream_.expires_after(kTransferTimeout);
    co_await http::async_write_some(stream_, serializer, use_awaitable);
  }
}

asio::awaitable<void> HttpConnection::begin_events() {
  http::response<http::empty_body> response;
  keep_alive_ = keep_alive_ && chunked_;  // else the end of the connection is that of the answer
  fill(response, 200, "text/event-stream; charset=utf-8");
  response.set(http::field::cache_control, "no-cache");
  response.chunked(chunked_);
  http::response_serializer<http::empty_body> serializer(response);
  stream_.expires_after(kTransferTimeout);
  co_await http::async_write_header(stream_, serializer, use_awaitable);
}

asio::awaitable<void> HttpConnection::send_events(const std::string& text) {
  stream_.expires_after(kTransferTimeout);
  if (chunked_) {
    const auto chunk = http::make_chunk(asio::buffer(text));
    co_await asio::async_write(stream_, chunk, use_awaitable);
  } else {
    co_await asio::async_write(stream_, asio::buffer(text), use_awaitable);
  }
}

asio::awaitable<void> HttpConnection::end_events() {
  if (!chunked_) co_return;
  stream_.expires_after(kTransferTimeout);
  const auto last = http::make_chunk_last();
  co_await asio::async_write(stream_, last, use_awaitable);
}

asio::awaitable<void> HttpConnection::drain() {
  error_code error;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  std::array<char, 16384> chunk;
  stream_.expires_after(kDrainTimeout);
  for (std::uint64_t total = 0; !error && total < kMaxDrainBytes;)
    total +=
        co_await stream_.async_read_some(asio::buffer(chunk), redirect_error(use_awaitable, error));
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
