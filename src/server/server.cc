#include "server/server.h"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "core/errors.h"
#include "core/log.h"
#include "server/api.h"
#include "server/batch_worker.h"
#include "server/data_directory.h"
#include "server/data_quota.h"
#include "server/housekeeper.h"
#include "server/open_files.h"
#include "server/session.h"

namespace barge {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

tcp::acceptor listen(asio::io_context& io, const ServerOptions& options) {
  const std::string& host = options.host;
  const std::uint16_t port = options.port;
  const auto fail = [&](const boost::system::error_code& error) {
    throw IoError(concat("cannot listen on ", host, " port ", port, ": ", error.message(),
                         "; choose another --host or --port"));
  };
  boost::system::error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error) fail(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  if (options.api_keys.empty() && !options.allow_anonymous && !endpoint.address().is_loopback())
    throw ConfigError(concat("refusing to listen on ", host, ", which other machines may reach, ",
                             "without a key: pass --api-key or --api-key-file, or ",
                             "--allow-anonymous if everybody may use it"));
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) fail(error);
  return acceptor;
}

constexpr std::size_t kOtherFiles = 256;  // packs, the store, running batches
constexpr int kMaxRefusals = 64;          // at once
constexpr auto kWarnEvery = std::chrono::seconds(10);

// As many as asked for, or as there may be open files for: each may have one beside its socket.
std::size_t most_connections(std::size_t wanted) {
  const std::size_t files = allow_open_files(2 * wanted + kOtherFiles);
  const std::size_t most = files > kOtherFiles ? (files - kOtherFiles) / 2 : 1;
  if (most < wanted)
    log::warning(concat("serving ", most, " connections at once, not ", wanted, ": only ", files,
                        " files may be open (ulimit -n)"));
  return std::min(wanted, most);
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options)
      : options_(options),
        directory_(options_.data_dir),
        store_(directory_.store()),
        quota_(options_.data_limit_bytes, store_),
        worker_(options_, directory_, store_),
        api_(options_, directory_, store_, quota_, worker_, models_, metrics_),
        max_connections_(most_connections(options_.limits.max_connections)),
        acceptor_(listen(io_, options_)),
        port_(acceptor_.local_endpoint().port()) {
    directory_.tidy(store_);
    housekeeper_.emplace(options_, directory_, store_, worker_, quota_);
    asio::co_spawn(io_, accept(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Impl() { stop(); }

  std::uint16_t port() const { return port_; }

  void serve(ServedModel model) {
    models_.fill(model);
    worker_.serve(std::move(model));
  }

  void wait() {
    asio::io_context signals_io;
    asio::signal_set signals(signals_io, SIGINT, SIGTERM);
    std::unique_lock lock(mutex_);
    signals.async_wait([&](const boost::system::error_code& error, int) {
      if (!error) end_wait();
    });
    std::thread watcher([&] { signals_io.run(); });
    changed_.wait(lock, [&] { return ended_; });
    lock.unlock();
    signals_io.stop();
    watcher.join();
  }

  void stop() {
    end_wait();
    const std::lock_guard lock(stop_mutex_);
    if (!thread_.joinable()) return;
    housekeeper_->stop();
    worker_.stop();
    io_.stop();
    thread_.join();
    pool_.join();
    models_.clear();
  }

 private:
  void end_wait() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  asio::awaitable<void> accept() {
    const SessionContext context{options_, directory_, store_, quota_,     api_,
                                 models_,  metrics_,   pool_,  held_bytes_};
    for (;;) {
      boost::system::error_code error;
      tcp::socket socket =
          co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // out of descriptors, as a rule: wait for some to be closed
        log::warning(concat("cannot accept a connection: ", error.message()));
        asio::steady_timer pause(io_, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::use_awaitable);
        continue;
      }
      socket.set_option(tcp::no_delay(true), error);  // pieces of a stream are small
      if (num_connections_ < max_connections_) {
        spawn(num_connections_, serve_connection(std::move(socket), context));
        continue;
      }
      warn_of_too_many();
      if (num_refusals_ < kMaxRefusals)  // more are closed without a word
        spawn(num_refusals_, refuse_connection(std::move(socket), context));
    }
  }

  // `count` is of those that run.
  template <typename Count>
  void spawn(Count& count, asio::awaitable<void> coroutine) {
    ++count;
    asio::co_spawn(io_, std::move(coroutine), [&count](std::exception_ptr) { --count; });
  }

  void warn_of_too_many() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_warning_) return;
    next_warning_ = now + kWarnEvery;
    log::warning(
        concat("refusing connections: ", num_connections_, " are open (", "--max-connections)"));
  }

  const ServerOptions options_;
  const DataDirectory directory_;
  JobStore store_;
  DataQuota quota_;
  BatchWorker worker_;
  ModelSlot models_;
  Metrics metrics_;
  Api api_;
  std::optional<Housekeeper> housekeeper_;
  asio::thread_pool pool_{4};  // so that a slow disk and a few long prompts leave one free
  // Of the HTTP thread:
  std::size_t num_connections_ = 0, held_bytes_ = 0;
  int num_refusals_ = 0;
  std::chrono::steady_clock::time_point next_warning_;
  const std::size_t max_connections_;
  asio::io_context io_{1};  // destroyed before all that its sessions use
  tcp::acceptor acceptor_;
  const std::uint16_t port_;
  std::thread thread_;
  std::mutex stop_mutex_;  // held by the one who stops
  std::mutex mutex_;       // guards ended_
  std::condition_variable changed_;
  bool ended_ = false;
};

Server::Server(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }
void Server::serve(ServedModel model) { impl_->serve(std::move(model)); }
void Server::wait() { impl_->wait(); }
void Server::stop() { impl_->stop(); }

}  // namespace barge
