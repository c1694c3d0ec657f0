#include "offload/disk_request.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/free_space.h"

namespace barge {
namespace {

// Bytes of the page cache that buffered files took for this piece: they are of no use there.
void drop_cache(const DiskPiece& piece) {
  const auto at = static_cast<off_t>(piece.offset), size = static_cast<off_t>(piece.bytes);
  if (piece.write) sync_file_range(piece.descriptor, at, size, SYNC_FILE_RANGE_WRITE);
  posix_fadvise(piece.descriptor, at, size, POSIX_FADV_DONTNEED);
}

}  // namespace

void DiskRequest::follow_up() {
  if (!failure && then) {
    try {
      then();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure && otherwise) otherwise(failure);
  then = nullptr;
  otherwise = nullptr;
}

DiskPiece DiskRequest::cut_piece(std::size_t most) {
  const std::size_t size = std::min(most, bytes - cut);
  const DiskPiece piece{.write = write,
                        .descriptor = file->descriptor(),
                        .offset = offset + cut,
                        .data = data + cut,
                        .bytes = size};
  cut += size;
  return piece;
}

std::string DiskRequest::attempt() const {
  return concat("cannot ", write ? "write " : "read ", bytes, " bytes at offset ", offset, " of ",
                file->path());
}

void DiskRequest::refuse(const DiskPiece& piece, int error) const {
  const std::string message = concat(attempt(), ": ", std::strerror(error));
  if (error != ENOSPC && error != EDQUOT)
    throw IoError(concat(message, " (at offset ", piece.offset, ")"));
  throw IoError(concat(message, "; ", format_bytes(free_space(piece.descriptor)),
                       " are free there: free some, choose another place with --disk-dir, or allow "
                       "less with --disk-space"));
}

std::optional<DiskPiece> DiskRequest::rest_of(const DiskPiece& piece, std::int64_t result) const {
  if (result == -EAGAIN || result == -EINTR) return piece;
  if (result < 0) refuse(piece, static_cast<int>(-result));
  const auto done = static_cast<std::size_t>(result);
  if (!file->direct()) drop_cache(piece);
  if (done >= piece.bytes) return std::nullopt;
  // O_DIRECT stops inside a sector only where the file ends.
  const bool ends = done == 0 || (file->direct() && done % kSectorBytes != 0);
  const std::uint64_t end = piece.offset + done;
  if (ends && write)
    throw IoError(concat(attempt(), ": the system took ", end - offset, " bytes and no more"));
  if (ends)
    throw IoError(concat(attempt(), ": got ", end - offset, ": the file ends at offset ", end, ", ",
                         offset + bytes - end,
                         " bytes too early; it was cut short after it was opened"));
  DiskPiece rest = piece;
  rest.offset += done;
  rest.data += done;
  rest.bytes -= done;
  return rest;
}

}  // namespace barge
