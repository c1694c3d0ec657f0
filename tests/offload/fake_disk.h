#pragma once

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "offload/disk_backend.h"

namespace barge {

/// A disk in memory whose faults a test chooses. `done_of` says for each piece how many bytes of it
/// the "system" does (or minus errno); pieces under way end in the reverse of their order.
class FakeDisk {
 public:
  using DoneOf = std::function<std::int64_t(const DiskPiece&)>;

  explicit FakeDisk(std::size_t bytes) : bytes(bytes) {}

  std::vector<std::byte> bytes;
  DoneOf done_of = [](const DiskPiece& piece) { return static_cast<std::int64_t>(piece.bytes); };
  std::vector<DiskPiece> seen;  // read it when the queue is gone

  /// No piece ends until `open`.
  void close() { set_open(false); }
  void open() { set_open(true); }
  /// Blocks until so many pieces have begun.
  void await(std::size_t pieces) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return seen.size() >= pieces; });
  }

  std::unique_ptr<DiskBackend> backend() { return std::make_unique<Backend>(*this); }

 private:
  class Backend final : public DiskBackend {
   public:
    explicit Backend(FakeDisk& disk) : disk_(disk) {}
    std::string name() const override { return "fake"; }
    void submit(const DiskPiece& piece) override {
      pieces_.push_back(piece);
      {
        const std::scoped_lock lock(disk_.mutex_);
        disk_.seen.push_back(piece);
      }
      disk_.changed_.notify_all();
    }
    void wait(std::vector<DiskResult>& results) override {
      std::unique_lock lock(disk_.mutex_);
      disk_.changed_.wait(lock,
                          [this] { return disk_.woken_ || (disk_.open_ && !pieces_.empty()); });
      disk_.woken_ = false;
      if (!disk_.open_) return;
      for (; !pieces_.empty(); pieces_.pop_back()) {
        const DiskPiece& piece = pieces_.back();
        const std::int64_t done = disk_.done_of(piece);
        if (done > 0) {
          std::byte* const at = disk_.bytes.data() + piece.offset;
          std::memcpy(piece.write ? at : piece.data, piece.write ? piece.data : at,
                      static_cast<std::size_t>(done));
        }
        results.push_back({piece.id, done});
      }
    }
    void wake() override {
      {
        const std::scoped_lock lock(disk_.mutex_);
        disk_.woken_ = true;
      }
      disk_.changed_.notify_all();
    }

   private:
    FakeDisk& disk_;
    std::vector<DiskPiece> pieces_;
  };

  void set_open(bool open) {
    {
      const std::scoped_lock lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool open_ = true, woken_ = false;
};

}  // namespace barge
