#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "block.h"
#include "cuda_runtime_api.h"
#include "random.h"

namespace cuda_emulation {

struct StreamState;

/// A place in a stream's work: reached when everything up to it is done.
struct Ticket {
  std::shared_ptr<StreamState> stream;
  std::uint64_t sequence = 0;
};

/// One thing that a stream does.
struct Work {
  std::function<void()> run;       // on the device's thread
  std::function<void()> host;      // or on a thread of the host
  std::optional<Ticket> wait_for;  // or begins when that is reached
  bool can_fail = false;           // counts for fail_work
};

/// Guarded by the executor's mutex.
struct StreamState {
  std::deque<Work> work;
  std::uint64_t given = 0, done = 0;
  bool blocking = true;  // ordered with the null stream
  bool destroyed = false;
  bool on_host = false;  // its head runs on the host's thread
};

/// The device's thread and the streams that it serves. It is lazy: work is done when somebody waits
/// or asks for it, or when nothing was given for a while; then any stream that may go on does, in
/// bursts of random length, so that streams lag behind each other as far as events allow. Never
/// destroyed.
class Executor {
 public:
  static Executor& get();

  /// Null: the null stream, which is ordered with all blocking ones.
  Ticket give(const std::shared_ptr<StreamState>& stream, Work work);
  std::shared_ptr<StreamState> create_stream(bool blocking);
  void destroy_stream(const std::shared_ptr<StreamState>& stream);
  const std::shared_ptr<StreamState>& null_stream() const { return null_stream_; }
  Ticket end_of(const std::shared_ptr<StreamState>& stream);

  bool reached(const Ticket& ticket);  // also a nudge for the executor
  void wait(const Ticket& ticket);
  void wait_for_all();

  cudaError_t failure();  // of work; stays
  void set_failure(cudaError_t error);
  void fail_work(std::uint64_t nth, cudaError_t error);
  void reset();
  void set_seed(std::uint64_t seed);
  /// Whether the caller is a host function or the device itself, which mustn't call CUDA.
  bool is_own_thread() const;

  BlockRunner& blocks() { return blocks_; }
  Random& random() { return random_; }

 private:
  Executor();
  void run();
  void run_host_functions();
  Ticket give_locked(StreamState& stream, const std::shared_ptr<StreamState>& shared, Work work);
  static bool reached_locked(const Ticket& ticket);
  bool wanted() const;
  bool can_run(const StreamState& stream) const;
  std::shared_ptr<StreamState> choose();
  void sleep(std::unique_lock<std::mutex>& lock);
  void take_one(std::unique_lock<std::mutex>& lock, const std::shared_ptr<StreamState>& stream);

  std::mutex mutex_;
  std::condition_variable more_, reached_, host_more_;
  std::shared_ptr<StreamState> null_stream_;
  std::vector<std::shared_ptr<StreamState>> streams_;
  std::vector<const Ticket*> wanted_;  // by those who wait
  std::uint64_t nudges_ = 0;
  std::uint64_t given_ = 0;
  bool asleep_ = false;
  std::thread::id own_threads_[2];
  const bool protects_;
  bool idle_ = false;  // nothing was given for a while
  std::deque<std::pair<std::shared_ptr<StreamState>, std::function<void()>>> host_work_;

  std::shared_ptr<StreamState> favourite_;
  std::uint32_t burst_ = 0;
  cudaError_t failure_ = cudaSuccess;
  std::uint64_t failing_in_ = 0;
  cudaError_t failing_with_ = cudaSuccess;
  Random random_;
  BlockRunner blocks_;
};

}  // namespace cuda_emulation
