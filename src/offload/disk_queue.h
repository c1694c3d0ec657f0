#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "offload/disk.h"

namespace barge {

class DiskBackend;
class Trace;

/// One queue of reads and writes, kept deep, on io_uring or on threads with pread and pwrite where
/// that is forbidden. Large requests are cut and go out side by side. Thread-safe; the destructor
/// waits for what is under way.
class DiskQueue final : public Disk {
 public:
  enum class Io : std::uint8_t { kAuto, kUring, kPread };
  struct Options {
    Io io = Io::kAuto;                       // auto says in the log what it chose and why
    int depth = 32;                          // requests under way at once
    std::size_t request_bytes = 512 * 1024;  // larger ones are cut into these
    // More under way at once make no disk faster, but each new request waits behind all of them,
    // whatever its priority.
    std::size_t bytes_under_way = 8 * 1024 * 1024;
    Trace* trace = nullptr;  // told of all reads and writes; outlives the queue
  };

  /// Throws IoError where io_uring is asked for and refused.
  explicit DiskQueue(Options options);
  /// On a backend of the caller's, such as a disk with faults.
  DiskQueue(Options options, std::unique_ptr<DiskBackend> backend);
  ~DiskQueue() override;

  void register_memory(std::span<const std::span<std::byte>> buffers) override;
  void unregister_memory(std::span<const std::span<std::byte>> buffers) override;
  Event read(const DiskFile& file, std::uint64_t offset, std::span<std::byte> to,
             IoPriority priority, Then then = {}, Otherwise otherwise = {}) override;
  Event write(const DiskFile& file, std::uint64_t offset, std::span<const std::byte> from,
              Event after = {}, Then then = {}) override;
  void call_after(Event event, std::function<void()> work) override;
  DiskTraffic traffic() const override;
  std::string backend() const;  // "io_uring" or "pread", for people

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace barge
