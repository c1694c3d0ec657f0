// One connection to the server, from its first byte to its end: framing, routing, uploads, bodies.
// Each answer is whole, and none comes behind one that ends the connection.
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <memory>
#include <system_error>

#include "core/log.h"
#include "fuzz/fuzzer.h"
#include "server/batch_worker.h"
#include "server/data_quota.h"
#include "server/session.h"

namespace barge::fuzz {
namespace {

namespace asio = boost::asio;

// A server without a model, a port and threads that work on batches.
struct Backend {
  Backend() {
    log::set_level(log::Level::kOff);
    options.limits.max_json_bytes = options.max_file_bytes = 100'000;
  }
  ServerOptions options{.data_dir = scratch_directory() / "data", .served_model_name = "m"};
  DataDirectory directory{options.data_dir};
  JobStore store{directory.store()};
  DataQuota quota{options.data_limit_bytes, store};
  BatchWorker worker{options, directory, store};
  ModelSlot models;
  Metrics metrics;
  Api api{options, directory, store, quota, worker, models, metrics};
  asio::thread_pool pool{1};
  std::size_t held_bytes = 0;
  int num_runs = 0;
};

// Sends `bytes` and hears the server out.
asio::awaitable<void> ask(asio::ip::tcp::socket socket, std::string_view bytes, std::string& said) {
  boost::system::error_code error;
  co_await asio::async_write(socket, asio::buffer(bytes),
                             asio::redirect_error(asio::use_awaitable, error));
  boost::system::error_code ignored;  // the server may have ended the connection
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  auto to = asio::dynamic_buffer(said);
  co_await asio::async_read(socket, to, asio::redirect_error(asio::use_awaitable, error));
}

// What the server says to `bytes`.
std::string converse(Backend& backend, std::string_view bytes) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
  std::string said;
  asio::io_context io{1};
  const auto wrap = [&](int end) {
    return asio::ip::tcp::socket(io, asio::ip::tcp::v4(), end);  // asio doesn't look inside
  };
  const SessionContext context{backend.options, backend.directory, backend.store,
                               backend.quota,   backend.api,       backend.models,
                               backend.metrics, backend.pool,      backend.held_bytes};
  const auto done = [](std::exception_ptr error) { require(!error, "a session never throws"); };
  asio::co_spawn(io, serve_connection(wrap(ends[0]), context), done);
  asio::co_spawn(io, ask(wrap(ends[1]), bytes, said), done);
  io.run();
  require(backend.held_bytes == 0, "no body is held any more");
  return said;
}

void check_answers(std::string_view said) {
  while (!said.empty()) {
    require(said.starts_with("HTTP/1.1 "), "an answer begins where the last one ended");
    const std::size_t end = said.find("\r\n\r\n");
    require(end != std::string_view::npos, "a header is whole");
    const std::string_view header = said.substr(0, end + 2);
    said.remove_prefix(end + 4);
    if (header.starts_with("HTTP/1.1 100")) continue;
    require(header.find("x-request-id: req_") != std::string_view::npos, "it has an id");
    require(header.find("HTTP/1.1 500") == std::string_view::npos, "the server has no errors");
    constexpr std::string_view kLength = "Content-Length: ";
    const std::size_t at = header.find(kLength);
    require(at != std::string_view::npos, "it has a length");
    const auto length = std::strtoull(header.data() + at + kLength.size(), nullptr, 10);
    const bool is_over = header.find("Connection: close") != std::string_view::npos;
    // An answer to HEAD has a length and no body.
    if (said.starts_with("HTTP/1.1 ") && length > 0) continue;
    if (said.empty()) return;
    require(length <= said.size(), "a body is whole");
    said.remove_prefix(length);
    require(!is_over || said.empty(), "nothing comes behind the last answer");
  }
}

}  // namespace
}  // namespace barge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge::fuzz;
  if (size > 100'000) return 0;
  static std::unique_ptr<Backend> backend;
  if (!backend || ++backend->num_runs == 2000) {  // files and batches would pile up
    backend.reset();
    std::filesystem::remove_all(scratch_directory() / "data");
    backend = std::make_unique<Backend>();
  }
  check_answers(converse(*backend, text_of(data, size)));
  return 0;
}
