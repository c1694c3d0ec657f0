#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace barge {

/// One system call's worth of a request.
struct DiskPiece {
  bool write = false;
  int descriptor = -1;
  std::uint64_t offset = 0;
  std::byte* data = nullptr;  // read from when writing
  std::size_t bytes = 0;
  std::uint64_t id = 0;  // comes back with the result
};

struct DiskResult {
  std::uint64_t id = 0;
  std::int64_t result = 0;  // bytes done, or minus errno
};

/// How pieces reach the disk. All calls but `wake` come from one thread, the queue's; at most as
/// many pieces are under way as the backend was made for. Destroyed when none is.
class DiskBackend {
 public:
  virtual ~DiskBackend() = default;

  virtual std::string name() const = 0;
  /// Memory that many pieces will lie in. Returns why it can't be
  /// registered, for the log, or nothing.
  virtual std::string register_memory(std::span<const std::span<std::byte>> buffers) {
    (void)buffers;
    return {};
  }
  virtual void unregister_memory(std::span<const std::span<std::byte>> buffers) { (void)buffers; }
  /// Begins a piece; at the latest `wait` sends it off.
  virtual void submit(const DiskPiece& piece) = 0;
  /// Blocks until a piece is done or `wake` was called since the last wait; adds the results, in
  /// any order. Throws IoError if the backend itself breaks.
  virtual void wait(std::vector<DiskResult>& results) = 0;
  /// From any thread: ends a wait, or the next one.
  virtual void wake() = 0;
};

/// Throws IoError, naming the reason, where io_uring is not to be had.
std::unique_ptr<DiskBackend> make_uring_backend(int depth);
/// pread and pwrite on up to 16 threads.
std::unique_ptr<DiskBackend> make_pread_backend(int depth);

}  // namespace barge
