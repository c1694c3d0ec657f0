#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace barge {

/// A fixed number of compute threads with one owner, who takes part as thread 0. Idle threads
/// sleep: spinning ones would starve the threads that move bytes.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller of `run`; the rest are started here.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls work(i, thread) for every i in [0, count), each once, on any thread in [0, threads()),
  /// and returns when all are done. The first exception is rethrown, the items not yet begun are
  /// skipped. Not reentrant; one caller at a time.
  void run(std::int64_t count, const std::function<void(std::int64_t, int)>& work);

 private:
  struct Round;
  void loop(int thread);

  std::mutex mutex_;  // guards what follows
  std::condition_variable start_, finish_;
  Round* round_ = nullptr;
  std::uint64_t generation_ = 0;
  int running_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> workers_;
};

}  // namespace barge
