#include "server/session.h"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

#include "core/log.h"
#include "jobs/completion_response.h"
#include "server/file_upload.h"

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
constexpr std::uint32_t kMaxHeaderBytes = 32 << 10;
constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{16} << 20;
constexpr std::int64_t kFormBytes = 1 << 20;  // what a form may have around its file
constexpr std::size_t kChunkBytes = 128 << 10;

// Temporaries stay out of expressions with co_await: g++ 12 destroys some of them too early.
class Session {
 public:
  Session(asio::ip::tcp::socket socket, SessionContext context)
      : stream_(std::move(socket)), context_(context) {}

  asio::awaitable<void> run() {
    while (co_await serve_one()) {
    }
    error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }

 private:
  using HeaderParser = http::request_parser<http::empty_body>;

  // False: the connection is over.
  asio::awaitable<bool> serve_one() {
    HeaderParser parser;
    parser.header_limit(kMaxHeaderBytes);
    parser.body_limit(boost::none);  // checked here, where an answer can be given
    stream_.expires_after(kIdleTimeout);
    error_code error;
    co_await http::async_read_header(stream_, buffer_, parser,
                                     redirect_error(use_awaitable, error));
    id_ = random_id("req_");
    keep_alive_ = false;
    head_only_ = false;
    if (error) co_return co_await answer_broken_header(error);

    const auto& header = parser.get();
    keep_alive_ = header.keep_alive();
    head_only_ = header.method() == http::verb::head;
    const std::string method(header.method_string()), target(header.target());
    ApiReply reply;
    bool refused_body = false;
    try {
      if (Api::is_upload(method, target) && has_body(parser)) {
        context_.api.authorize(header[http::field::authorization]);
        reply = co_await upload(parser);
      } else {
        ApiRequest request{method, target, std::string(header[http::field::authorization]), {}};
        request.body = co_await read_body(parser);
        reply = context_.api.handle(request);
      }
    } catch (const RequestError& problem) {
      reply = error_reply(problem);
      refused_body = true;  // perhaps: some of it may not have been read
    } catch (const IoError& problem) {
      log::error(concat(method, ' ', target, ": ", problem.what()));
      reply = error_reply(RequestError("The server could not store the upload.", "", "", 500));
      refused_body = true;
    }
    keep_alive_ = keep_alive_ && !refused_body;
    co_await send(reply);
    if (refused_body) co_await drain();
    co_return keep_alive_;
  }

  static bool has_body(const HeaderParser& parser) {
    return parser.chunked() || parser.content_length().value_or(0) > 0;
  }

  asio::awaitable<bool> answer_broken_header(error_code error) {
    if (error == http::error::end_of_stream || error == beast::error::timeout) co_return false;
    if (error.category() != make_error_code(http::error::bad_method).category()) co_return false;
    const ApiReply reply =
        error_reply(RequestError(concat("The HTTP request can't be read: ", error.message(), '.'),
                                 "", "", error == http::error::header_limit ? 431 : 400));
    co_await send(reply);
    co_await drain();
    co_return false;
  }

  // Clients that send a large body ask first; others don't wait for this.
  asio::awaitable<void> answer_expectation(const HeaderParser& parser) {
    if (!beast::iequals(parser.get()[http::field::expect], "100-continue")) co_return;
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    stream_.expires_after(kTransferTimeout);
    co_await asio::async_write(stream_, asio::buffer(kContinue), use_awaitable);
  }

  // A body that is kept in memory. Throws RequestError if it is too large.
  asio::awaitable<std::string> read_body(HeaderParser& header) {
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
    if (error) co_await fail_body(error);
    co_return std::move(parser.get().body());
  }

  // Bad framing gets an answer, a lost connection ends the session.
  static asio::awaitable<void> fail_body(error_code error) {
    if (error.category() == make_error_code(http::error::bad_chunk).category() &&
        error != http::error::partial_message && error != http::error::end_of_stream)
      throw RequestError(concat("The body of the HTTP request can't be read: ", error.message()));
    throw boost::system::system_error(error);
    co_return;
  }

  asio::awaitable<ApiReply> upload(HeaderParser& header) {
    const std::int64_t max_bytes = context_.options.max_file_bytes;
    FileUpload file(context_.directory, header.get()[http::field::content_type], max_bytes);
    if (header.content_length().value_or(0) > static_cast<std::uint64_t>(max_bytes + kFormBytes))
      throw RequestError(concat("File is too large. The limit is ", max_bytes, " bytes."), "file",
                         "file_too_large", 413);
    co_await answer_expectation(header);
    http::request_parser<http::buffer_body> parser(std::move(header));
    parser.body_limit(boost::none);
    std::vector<char> chunk(kChunkBytes);
    std::int64_t total = 0;
    while (!parser.is_done()) {
      parser.get().body().data = chunk.data();
      parser.get().body().size = chunk.size();
      stream_.expires_after(kTransferTimeout);
      error_code error;
      co_await http::async_read_some(stream_, buffer_, parser,
                                     redirect_error(use_awaitable, error));
      if (error && error != http::error::need_buffer) co_await fail_body(error);
      const std::size_t got = chunk.size() - parser.get().body().size;
      total += static_cast<std::int64_t>(got);
      if (total > max_bytes + kFormBytes)
        throw RequestError("The form is too large.", "", "file_too_large", 413);
      file.push({chunk.data(), got});
    }
    ApiReply reply;
    try {
      const FileRecord record = co_await finish(file);
      reply.body = file_json(record);
    } catch (const RequestError& problem) {
      reply = error_reply(problem);  // the body was read: the connection goes on
    }
    co_return reply;
  }

  // On the pool: fsync of a large file takes seconds.
  asio::awaitable<FileRecord> finish(FileUpload& file) {
    const auto on_pool = [](FileUpload& upload, JobStore& store) -> asio::awaitable<FileRecord> {
      co_return upload.finish(store);
    };
    FileRecord record =
        co_await asio::co_spawn(context_.disk_pool, on_pool(file, context_.store), use_awaitable);
    co_return record;
  }

  asio::awaitable<void> send(const ApiReply& reply) {
    if (reply.file) {
      co_await send_file(*reply.file);
      co_return;
    }
    http::response<http::string_body> response;
    fill(response, reply.status, "application/json");
    for (const auto& [name, value] : reply.headers) response.set(name, value);
    response.body() = to_text(reply.body);
    response.prepare_payload();
    if (head_only_) response.body().clear();  // its length stays in the header
    stream_.expires_after(kTransferTimeout);
    co_await http::async_write(stream_, response, use_awaitable);
  }

  asio::awaitable<void> send_file(const std::filesystem::path& path) {
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
    while (!serializer.is_done()) {
      stream_.expires_after(kTransferTimeout);
      co_await http::async_write_some(stream_, serializer, use_awaitable);
    }
  }

  template <typename Body>
  void fill(http::response<Body>& response, int status, const char* content_type) {
    response.version(11);
    response.result(static_cast<unsigned>(status));
    response.set(http::field::server, "barge");
    response.set(http::field::content_type, content_type);
    response.set("x-request-id", id_);
    response.keep_alive(keep_alive_);
  }

  // Clients read an answer only when their body is sent: closing at once would lose it for them.
  asio::awaitable<void> drain() {
    error_code error;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    std::array<char, 16384> chunk;
    stream_.expires_after(kDrainTimeout);
    for (std::uint64_t total = 0; !error && total < kMaxDrainBytes;)
      total += co_await stream_.async_read_some(asio::buffer(chunk),
                                                redirect_error(use_awaitable, error));
  }

  beast::tcp_stream stream_;
  SessionContext context_;
  beast::flat_buffer buffer_{kMaxHeaderBytes + kChunkBytes};
  std::string id_;  // of the request
  bool keep_alive_ = false;
  bool head_only_ = false;  // no body may follow the answer's header
};

}  // namespace

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
