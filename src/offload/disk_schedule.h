#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "offload/disk_backend.h"
#include "offload/disk_queue.h"
#include "offload/disk_request.h"

namespace barge {

/// Which piece of which request the disk gets next, and what is under way. One thread.
class DiskSchedule {
 public:
  /// `options` as DiskQueue's.
  explicit DiskSchedule(const DiskQueue::Options& options);

  /// A request that isn't over; it must live until `end` returns it.
  void add(DiskRequest* request);
  /// A piece to begin now; nothing where none waits, or where enough is under way.
  std::optional<DiskPiece> next();
  /// A piece has ended. Returns its request if that is over now, with its failure, if any, set.
  DiskRequest* end(const DiskResult& result);

 private:
  struct Slot {
    DiskRequest* request = nullptr;
    DiskPiece piece;
  };

  std::deque<DiskRequest*>* choose();
  DiskPiece begin(Slot slot);
  void fail(DiskRequest* request, std::exception_ptr failure);

  const std::size_t request_bytes_, most_bytes_;
  std::array<std::deque<DiskRequest*>, kIoPriorities> waiting_;  // not yet cut to the end
  std::deque<Slot> rests_;                                       // of short reads and writes
  std::vector<Slot> slots_;                                      // pieces under way, by id
  std::vector<std::size_t> free_slots_;
  std::size_t bytes_ = 0;  // under way
  int pieces_since_write_ = 0;
};

}  // namespace barge
