#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/cpu_device.h"
#include "offload/disk_backend.h"

namespace barge {

/// Now in no hurry and now late for a while, as seeded: so that who forgets to wait gets ahead of
/// what it should have waited for. Thread-safe.
class Lateness {
 public:
  explicit Lateness(unsigned seed) : random_(seed) {}

  std::chrono::microseconds next() {
    const std::scoped_lock lock(mutex_);
    if (left_ == 0) {
      left_ = 1 + static_cast<int>(random_() % 12);
      late_ = random_() % 2 == 0;
    }
    --left_;
    return std::chrono::microseconds(late_ ? random_() % 300 : 0);
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::mt19937 random_;
  int left_ = 0;
  bool late_ = false;
};

/// The CPU in the role of a discrete device, each of whose streams is late in its own time.
/// Seed 0: never.
class LateDevice final : public Device {
 public:
  LateDevice(CpuDevice::Options options, Budgets& budgets, unsigned seed = 0)
      : to_(options, budgets) {
    if (seed == 0) return;
    late_ = std::make_unique<Streams>(to_, seed);
  }

  std::string name() const override { return to_.name(); }
  bool unified() const override { return to_.unified(); }
  Buffer allocate(Tier tier, std::size_t bytes, std::string_view tag) override {
    return to_.allocate(tier, bytes, tag);
  }
  Stream& compute() override { return late_ ? late_->compute : to_.compute(); }
  Stream& load() override { return late_ ? late_->load : to_.load(); }
  Stream& store() override { return late_ ? late_->store : to_.store(); }
  const Clock& clock() const override { return to_.clock(); }
  LinkTraffic link_traffic() const override { return to_.link_traffic(); }
  double compute_seconds() const override { return to_.compute_seconds(); }

 private:
  class LateStream final : public Stream {
   public:
    LateStream(Stream& to, unsigned seed) : to_(to), lateness_(seed) {}

    void wait(const Event& event) override { to_.wait(event); }
    Event record() override { return to_.record(); }
    void copy(void* to, Tier to_tier, const void* from, Tier from_tier,
              std::size_t bytes) override {
      be_late();
      to_.copy(to, to_tier, from, from_tier, bytes);
    }
    void call(std::function<void()> work) override {
      be_late();
      to_.call(std::move(work));
    }

   private:
    void be_late() {
      const auto by = lateness_.next();
      if (by.count() > 0) to_.call([by] { std::this_thread::sleep_for(by); });
    }

    Stream& to_;
    Lateness lateness_;
  };
  struct Streams {
    Streams(Device& to, unsigned seed)
        : compute(to.compute(), seed), load(to.load(), seed + 1), store(to.store(), seed + 2) {}
    LateStream compute, load, store;
  };

  CpuDevice to_;
  std::unique_ptr<Streams> late_;
};

/// A disk that now and then lets its queue wait before it begins a piece.
class LateDisk final : public DiskBackend {
 public:
  LateDisk(std::unique_ptr<DiskBackend> to, unsigned seed) : to_(std::move(to)), lateness_(seed) {}

  std::string name() const override { return to_->name(); }
  std::string register_memory(std::span<const std::span<std::byte>> buffers) override {
    return to_->register_memory(buffers);
  }
  void unregister_memory(std::span<const std::span<std::byte>> buffers) override {
    to_->unregister_memory(buffers);
  }
  void submit(const DiskPiece& piece) override {
    std::this_thread::sleep_for(lateness_.next());
    to_->submit(piece);
  }
  void wait(std::vector<DiskResult>& results) override { to_->wait(results); }
  void wake() override { to_->wake(); }

 private:
  const std::unique_ptr<DiskBackend> to_;
  Lateness lateness_;
};

}  // namespace barge
