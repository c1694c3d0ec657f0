#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/event.h"

namespace barge {

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

/// Reads and writes of files, and what follows them. Thread-safe.
class Disk {
 public:
  /// Runs on a thread of the disk's when the bytes are there, before the event is done; what it
  /// throws becomes the event's failure. Must not block.
  using Then = std::function<void()>;
  /// Runs likewise if the request or its Then failed. Must neither block nor throw.
  using Otherwise = std::function<void(std::exception_ptr)>;

  virtual ~Disk() = default;

  /// Memory that requests will use often: registered with the system where that spares it work.
  virtual void register_memory(std::span<const std::span<std::byte>> buffers) = 0;
  /// Must be called before registered memory is freed, and when no request uses it.
  virtual void unregister_memory(std::span<const std::span<std::byte>> buffers) = 0;

  /// Reads to.size() bytes. The event fails with IoError, naming file, offset, wanted and got.
  /// `file` and `to` must stay valid until it is done. Throws Error if an offset, a length or an
  /// address is no multiple of 4096: a bug of the caller's.
  virtual Event read(const DiskFile& file, std::uint64_t offset, std::span<std::byte> to,
                     IoPriority priority, Then then = {}, Otherwise otherwise = {}) = 0;
  /// Writes from.size() bytes once `after` is done (default: now); fails with its failure. Writes
  /// that wait for events start in the order in which they were given.
  virtual Event write(const DiskFile& file, std::uint64_t offset, std::span<const std::byte> from,
                      Event after = {}, Then then = {}) = 0;
  /// Runs `work` once `event` is over, failed or not: who waits for memory goes on reading then.
  /// In the order in which it was given, on a thread that only does this. Must neither block for
  /// long nor throw.
  virtual void call_after(Event event, std::function<void()> work) = 0;

  virtual DiskTraffic traffic() const = 0;
};

}  // namespace barge
