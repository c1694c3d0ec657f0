#include "core/thread_pool.h"

#include <atomic>
#include <exception>
#include <utility>

#include "core/errors.h"

namespace barge {

struct ThreadPool::Round {
  const std::function<void(std::int64_t, int)>& work;
  const std::int64_t count;
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex = {};  // guards failure
  std::exception_ptr failure = nullptr;

  void take_part(int thread) {
    try {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
        work(i, thread);
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
};

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) throw ConfigError(concat("--threads wants at least 1, got ", threads));
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { loop(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
}

void ThreadPool::run(std::int64_t count, const std::function<void(std::int64_t, int)>& work) {
  Round round{work, count};
  const bool alone = workers_.empty() || count <= 1;
  if (!alone) {
    {
      const std::scoped_lock lock(mutex_);
      round_ = &round;
      ++generation_;
      running_ = static_cast<int>(workers_.size());
    }
    start_.notify_all();
  }
  round.take_part(0);
  if (!alone) {
    std::unique_lock lock(mutex_);
    finish_.wait(lock, [this] { return running_ == 0; });
    round_ = nullptr;
  }
  if (round.failure) std::rethrow_exception(round.failure);
}

void ThreadPool::loop(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    Round* round = nullptr;
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      round = round_;
    }
    round->take_part(thread);
    bool last = false;
    {
      const std::scoped_lock lock(mutex_);
      last = --running_ == 0;
    }
    if (last) finish_.notify_one();
  }
}

}  // namespace barge
