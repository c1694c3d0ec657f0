#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "core/event.h"
#include "offload/disk.h"
#include "offload/disk_backend.h"

namespace barge {

/// A read or a write on its way through the queue, and how far it has come.
struct DiskRequest {
  bool write = false;
  IoPriority priority = IoPriority::kWrite;
  const DiskFile* file = nullptr;
  std::uint64_t offset = 0;
  std::byte* data = nullptr;  // only read from when writing
  std::size_t bytes = 0;
  Disk::Then then;
  Disk::Otherwise otherwise;
  Completion completion;

  std::size_t cut = 0;  // bytes handed out in pieces
  int pieces_under_way = 0;
  std::exception_ptr failure;

  bool all_cut() const { return cut == bytes || failure != nullptr; }
  bool over() const { return all_cut() && pieces_under_way == 0; }
  /// It is over: what follows it is done, and may fail it. Afterwards neither `then` nor
  /// `otherwise` holds anything, for that must not outlive the event.
  void follow_up();
  /// The next piece of at most `most` bytes.
  DiskPiece cut_piece(std::size_t most);
  /// What is left of a piece after the system did `result` bytes of it (or failed with minus
  /// errno); nothing when it is complete. Throws IoError if the rest can't be had.
  std::optional<DiskPiece> rest_of(const DiskPiece& piece, std::int64_t result) const;

 private:
  std::string attempt() const;  // "cannot read 8192 bytes at offset 4096 of w.bin"
  [[noreturn]] void refuse(const DiskPiece& piece, int error) const;
};

}  // namespace barge
