#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_stats.h"
#include "engine/generator.h"
#include "jobs/job_store.h"
#include "jobs/lookahead.h"
#include "server/http_limits.h"

namespace barge {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address of this machine
  std::uint16_t port = 8000;       // 0: any that is free
  std::filesystem::path data_dir;  // files and jobs; made if it isn't there
  std::string served_model_name;
  std::vector<std::string> api_keys;  // that clients may send; empty: none is asked for
  bool allow_anonymous = false;       // without keys also where other machines can reach it
  std::uint64_t seed = 0;             // of requests that bring none
  std::int64_t max_file_bytes = std::int64_t{200} << 20;
  std::size_t max_batch_requests = 50'000;

  // Lifetimes, in seconds; 0: for ever.
  std::int64_t batch_expiry_seconds = 0;  // from a batch's creation: what it hasn't answered then
                                          // gets error lines
  std::int64_t retain_seconds = 0;  // of files that batches read and wrote, from the last one's end
  std::int64_t data_limit_bytes = 0;  // an upload that would take all files beyond it is refused;
                                      // 0: none
  std::function<std::int64_t()> now = [] { return std::int64_t{std::time(nullptr)}; };  // Unix s
  std::chrono::milliseconds housekeeping_every{
      1000};  // how late expiry may be noticed; batches
              // that were put aside wait 1, 2, ... 64 of it
  HttpLimits limits;
  bool log_requests = false;  // bodies, prompts with them, go to the log
};

/// What /metrics shows of the engine.
struct EngineNumbers {
  EngineStats stats;
  PerTier<std::size_t> kv_capacity_bytes;                 // as planned
  PerTier<std::size_t> capacity_bytes, used_bytes;        // budgets; the pack is in disk's
  double sweep_seconds = 0, predicted_sweep_seconds = 0;  // of all sweeps; predicted by the plan
};

/// What answers, once it is loaded.
struct ServedModel {
  Generator* generator = nullptr;  // must live until the server is stopped
  Identity identity;      // what changes answers: a batch goes on only where it is the same
  Lookahead lookahead;    // of all batches that run, together
  int max_model_len = 0;  // shown by /v1/models; 0: not shown
  std::function<std::int64_t()> live_tokens;  // see JobRunOptions; may be empty
  std::function<EngineNumbers()> numbers;     // for /metrics; quick; may be empty
};

/// OpenAI's Files, Batches and completions over HTTP. A few batches run at once, taken up in the
/// order in which they were created, and share the engine in equal parts; completions enter it
/// before lines of batches that wait, though not before those that run. What was acknowledged,
/// uploads, batches and finished lines, survives the death of the process: a server on the same
/// data_dir goes on. Threads: one for HTTP, which never waits for anything else, a few for batches,
/// a few for the disk and for long texts; all calls are thread-safe.
class Server {
 public:
  /// Listens at once; /health says 503 until `serve`. Throws IoError: the address is in use,
  /// data_dir can't be written or belongs to another process. ConfigError: other machines can reach
  /// it, and no key is asked for.
  explicit Server(const ServerOptions& options);
  /// Stops.
  ~Server();

  std::uint16_t port() const;

  /// From now on completions are answered, batches run and /health says 200. To be called once.
  void serve(ServedModel model);

  /// Returns when SIGINT or SIGTERM came or `stop` was called.
  void wait();

  /// Closes all connections and ends the running batches with their sweep, state saved. Returns
  /// when nothing runs any more. Not for signal handlers.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace barge
