#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/event.h"

namespace barge {

class DiskBackend;
class Trace;

/// An open file whose offsets, lengths and addresses are multiples of 4096. Move-only.
class DiskFile {
 public:
  /// kDirect falls back to kBuffered where the file system refuses O_DIRECT; the log says so.
  enum class Access : std::uint8_t { kDirect, kBuffered };

  /// For reading, past the page cache where the file system allows it. Throws IoError.
  static DiskFile open(const std::filesystem::path& path, Access access = Access::kDirect);
  /// A nameless file in `directory` for reading and writing: it is gone with the process.
  static DiskFile scratch(const std::filesystem::path& directory, Access access = Access::kDirect);

  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&& other) noexcept;
  ~DiskFile();

  int descriptor() const { return descriptor_; }
  bool direct() const { return direct_; }  // O_DIRECT; else buffered, its cache dropped as we go
  const std::string& path() const { return path_; }  // for messages
  std::uint64_t bytes() const;                       // its size now; throws IoError

 private:
  DiskFile(int descriptor, bool direct, std::string path);

  int descriptor_ = -1;
  bool direct_ = false;
  std::string path_;
};

/// Which requests go first when the disk has a choice. Urgent: nothing can be computed without it.
enum class IoPriority : std::uint8_t { kUrgent, kKvRead, kWeightRead, kWrite };
constexpr std::size_t kIoPriorities = 4;

struct DiskTraffic {
  std::size_t read_bytes = 0, written_bytes = 0;  // of completed requests
  std::size_t reads = 0, writes = 0;
  double read_seconds = 0, write_seconds = 0;  // with at least one such request under way
};

/// One queue of reads and writes, kept deep, on io_uring or on threads with pread and pwrite where
/// that is forbidden. Large requests are cut and go out side by side. Thread-safe; the destructor
/// waits for what is under way.
class DiskQueue {
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
  /// Runs on the queue's thread when the bytes are there, before the event is done; what it throws
  /// becomes the event's failure. Must not block.
  using Then = std::function<void()>;
  /// Runs likewise if the request or its Then failed. Must neither block nor throw.
  using Otherwise = std::function<void(std::exception_ptr)>;

  /// Throws IoError where io_uring is asked for and refused.
  explicit DiskQueue(Options options);
  /// On a backend of the caller's, such as a disk with faults.
  DiskQueue(Options options, std::unique_ptr<DiskBackend> backend);
  ~DiskQueue();

  /// Memory that requests will use often: registered with io_uring, which spares the kernel to look
  /// up its pages each time, where the memlock limit lets it; the log says what came of it.
  void register_memory(std::span<const std::span<std::byte>> buffers);
  /// Must be called before registered memory is freed, and when no request uses it.
  void unregister_memory(std::span<const std::span<std::byte>> buffers);

  /// Reads to.size() bytes. The event fails with IoError, naming file, offset, wanted and got.
  /// `file` and `to` must stay valid until it is done. Throws Error if an offset, a length or an
  /// address is no multiple of 4096: a bug of the caller's.
  Event read(const DiskFile& file, std::uint64_t offset, std::span<std::byte> to,
             IoPriority priority, Then then = {}, Otherwise otherwise = {});
  /// Writes from.size() bytes once `after` is done (default: now); fails with its failure. Writes
  /// that wait for events start in the order in which they were given.
  Event write(const DiskFile& file, std::uint64_t offset, std::span<const std::byte> from,
              Event after = {}, Then then = {});

  DiskTraffic traffic() const;
  std::string backend() const;  // "io_uring" or "pread", for people

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace barge
