#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "offload/disk_backend.h"

namespace barge {
namespace {

constexpr int kMaxThreads = 16;

class PreadBackend final : public DiskBackend {
 public:
  explicit PreadBackend(int depth) {
    for (int i = 0; i < std::clamp(depth, 1, kMaxThreads); ++i)
      threads_.emplace_back([this] { work(); });
  }

  ~PreadBackend() override {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    work_changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string name() const override { return "pread"; }

  void submit(const DiskPiece& piece) override {
    {
      const std::scoped_lock lock(mutex_);
      pieces_.push_back(piece);
    }
    work_changed_.notify_one();
  }

  void wait(std::vector<DiskResult>& results) override {
    std::unique_lock lock(mutex_);
    results_changed_.wait(lock, [this] { return woken_ || !results_.empty(); });
    woken_ = false;
    results.insert(results.end(), results_.begin(), results_.end());
    results_.clear();
  }

  void wake() override {
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    results_changed_.notify_one();
  }

 private:
  void work() {
    for (;;) {
      DiskPiece piece;
      {
        std::unique_lock lock(mutex_);
        work_changed_.wait(lock, [this] { return stopping_ || !pieces_.empty(); });
        if (pieces_.empty()) return;
        piece = pieces_.front();
        pieces_.pop_front();
      }
      const auto offset = static_cast<off_t>(piece.offset);
      ssize_t done = -1;
      do
        done = piece.write ? ::pwrite(piece.descriptor, piece.data, piece.bytes, offset)
                           : ::pread(piece.descriptor, piece.data, piece.bytes, offset);
      while (done < 0 && errno == EINTR);
      {
        const std::int64_t result = done < 0 ? -errno : done;
        const std::scoped_lock lock(mutex_);
        results_.push_back({piece.id, result});
      }
      results_changed_.notify_one();
    }
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_changed_, results_changed_;
  std::deque<DiskPiece> pieces_;
  std::vector<DiskResult> results_;
  bool woken_ = false, stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<DiskBackend> make_pread_backend(int depth) {
  return std::make_unique<PreadBackend>(depth);
}

}  // namespace barge
