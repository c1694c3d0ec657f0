#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "fiber.h"
#include "random.h"

namespace cuda_emulation {

/// Runs blocks of threads, one block after the other. A thread runs until it ends or meets others
/// at a barrier; then any thread that can run comes next. Threads without barriers share a fiber.
/// Used by one thread of the host, and by one instance at a time (threadIdx is global).
class BlockRunner {
 public:
  explicit BlockRunner(Random& random) : random_(random) {}

  /// Runs a block at `block_idx` (blockIdx, blockDim and gridDim are set by the caller).
  void run(const std::function<void()>& thread, std::size_t shared_bytes);

  std::uint64_t meet_lanes(const char* what, Combine combine, std::uint32_t mask,
                           std::uint64_t value, int argument, const Where& where);
  int meet_block(const char* what, bool value, const Where& where);
  int lane() const { return static_cast<int>(current_ % 32); }
  void* dynamic_shared() const { return shared_; }
  [[noreturn]] void fail(const std::string& what, const Where& where) const;

 private:
  enum class State : std::uint8_t { kUnstarted, kRunning, kAtBlock, kAtLanes, kEnded };
  struct Thread {
    uint3 index;
    State state = State::kUnstarted;
    Fiber* fiber = nullptr;
    const char* what = nullptr;  // it waits for
    Where where;
    std::uint64_t result = 0;
  };
  /// Lanes that wait for each other.
  struct Meeting {
    const char* what;
    Combine combine;
    std::uint32_t mask, arrived;
    Where where;
  };
  struct Warp {
    std::uint32_t living = 0;
    std::vector<Meeting> meetings;
    std::uint64_t values[32], results[32];
    int arguments[32];
  };

  void prepare(std::size_t shared_bytes);
  void start_threads(const std::function<void()>& thread);
  void end_thread();
  void wait_here(State state, const char* what, const Where& where);
  void make_ready(std::uint32_t thread);
  bool complete(std::uint32_t warp, std::size_t meeting);
  void release_block();
  Fiber& idle_fiber();
  [[noreturn]] void report_deadlock() const;

  Random& random_;
  const std::function<void()>* body_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<std::uint32_t> order_;  // in which threads start
  std::size_t next_ = 0;              // of order_
  std::vector<std::uint32_t> ready_, at_block_;
  int at_block_true_ = 0;
  std::uint32_t living_ = 0, current_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<std::byte> shared_memory_;
  std::byte* shared_ = nullptr;
};

}  // namespace cuda_emulation
