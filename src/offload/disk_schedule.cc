#include "offload/disk_schedule.h"

#include <utility>

#include "core/bytes.h"
#include "core/errors.h"

namespace barge {
namespace {

// Reads go first, but of so many pieces one is a write if any waits: staging that waits to be
// written back must not stand still behind an endless prefetch.
constexpr int kPiecesPerWrite = 8;

std::size_t index_of(IoPriority priority) { return static_cast<std::size_t>(priority); }

}  // namespace

DiskSchedule::DiskSchedule(const DiskQueue::Options& options)
    : request_bytes_(options.request_bytes), most_bytes_(options.bytes_under_way) {
  if (options.depth < 1 || request_bytes_ < kSectorBytes || request_bytes_ % kSectorBytes != 0 ||
      most_bytes_ < request_bytes_)
    throw ConfigError(concat("a disk queue of depth ", options.depth, " with requests of ",
                             request_bytes_, " bytes, ", most_bytes_,
                             " under way: wanted a depth of at least 1, a multiple of ",
                             kSectorBytes, " bytes and room for one request"));
  slots_.resize(static_cast<std::size_t>(options.depth));
  for (std::size_t i = 0; i < slots_.size(); ++i) free_slots_.push_back(i);
}

void DiskSchedule::add(DiskRequest* request) {
  waiting_[index_of(request->priority)].push_back(request);
}

std::optional<DiskPiece> DiskSchedule::next() {
  if (free_slots_.empty() || bytes_ + request_bytes_ > most_bytes_) return std::nullopt;
  if (!rests_.empty()) {
    const Slot slot = rests_.front();
    rests_.pop_front();
    return begin(slot);
  }
  std::deque<DiskRequest*>* const queue = choose();
  if (queue == nullptr) return std::nullopt;
  DiskRequest* const request = queue->front();
  ++request->pieces_under_way;
  const DiskPiece piece = request->cut_piece(request_bytes_);
  if (request->all_cut()) queue->pop_front();
  return begin({request, piece});
}

std::deque<DiskRequest*>* DiskSchedule::choose() {
  auto& writes = waiting_[index_of(IoPriority::kWrite)];
  if (!writes.empty() && ++pieces_since_write_ >= kPiecesPerWrite) {
    pieces_since_write_ = 0;
    return &writes;
  }
  for (auto& queue : waiting_)
    if (!queue.empty()) return &queue;
  return nullptr;
}

DiskPiece DiskSchedule::begin(Slot slot) {
  const std::size_t index = free_slots_.back();
  free_slots_.pop_back();
  slot.piece.id = index;
  slots_[index] = slot;
  bytes_ += slot.piece.bytes;
  return slot.piece;
}

DiskRequest* DiskSchedule::end(const DiskResult& result) {
  const Slot slot = slots_.at(result.id);
  free_slots_.push_back(result.id);
  bytes_ -= slot.piece.bytes;
  DiskRequest* const request = slot.request;
  if (!request->failure) {
    try {
      if (const auto rest = request->rest_of(slot.piece, result.result)) {
        rests_.push_back({request, *rest});  // the piece stays under way
        return nullptr;
      }
    } catch (...) {
      fail(request, std::current_exception());
    }
  }
  --request->pieces_under_way;
  return request->over() ? request : nullptr;
}

// No more pieces of this request begin; those under way still use its memory.
void DiskSchedule::fail(DiskRequest* request, std::exception_ptr failure) {
  request->failure = std::move(failure);
  std::erase(waiting_[index_of(request->priority)], request);
  request->pieces_under_way -= static_cast<int>(
      std::erase_if(rests_, [&](const Slot& slot) { return slot.request == request; }));
}

}  // namespace barge
