#include "simulate/sim_disk.h"

namespace barge {
namespace {

// Fewer and larger pieces than the real queue's: what matters is who goes first.
constexpr DiskQueue::Options kOptions{.request_bytes = 4 << 20, .bytes_under_way = 8 << 20};

}  // namespace

SimDisk::SimDisk(VirtualTime& time, const Profile& profile, int weights, Trace* trace)
    : time_(time), profile_(profile), weights_(weights), trace_(trace), schedule_(kOptions) {
  time.add(*this);
}

Trace::Lane SimDisk::lane_of(const DiskPiece& piece) const {
  if (piece.write) return Trace::Lane::kDiskWrite;
  return piece.descriptor == weights_ ? Trace::Lane::kWeightRead : Trace::Lane::kKvRead;
}

Event SimDisk::read(const DiskFile& file, std::uint64_t offset, std::span<std::byte> to,
                    IoPriority priority, Then then, Otherwise otherwise) {
  auto request = std::make_unique<DiskRequest>(DiskRequest{.priority = priority,
                                                           .file = &file,
                                                           .offset = offset,
                                                           .data = to.data(),
                                                           .bytes = to.size(),
                                                           .then = std::move(then),
                                                           .otherwise = std::move(otherwise)});
  Event event = request->completion.event();
  begin(std::move(request));
  return event;
}

Event SimDisk::write(const DiskFile& file, std::uint64_t offset, std::span<const std::byte> from,
                     Event after, Then then) {
  auto request =
      std::make_unique<DiskRequest>(DiskRequest{.write = true,
                                                .file = &file,
                                                .offset = offset,
                                                .data = const_cast<std::byte*>(from.data()),
                                                .bytes = from.size(),
                                                .then = std::move(then)});
  Event event = request->completion.event();
  held_.emplace_back(std::move(after), std::move(request));
  return event;
}

void SimDisk::call_after(Event event, std::function<void()> work) {
  calls_.emplace_back(std::move(event), std::move(work));
}

void SimDisk::begin(std::unique_ptr<DiskRequest> request) {
  DiskRequest* const pointer = request.get();
  active_.emplace(pointer, std::move(request));
  if (pointer->over())  // empty, or what it waited for failed
    finish(pointer);
  else
    schedule_.add(pointer);
}

bool SimDisk::advance() {
  bool advanced = false;
  for (; !calls_.empty() && calls_.front().first.done(); advanced = true) {
    const auto work = std::move(calls_.front().second);
    calls_.pop_front();
    work();
  }
  for (; !held_.empty() && held_.front().first.done(); advanced = true) {
    auto [after, request] = std::move(held_.front());
    held_.pop_front();
    try {
      after.wait();
    } catch (...) {
      request->failure = std::current_exception();
    }
    begin(std::move(request));
  }
  while (const auto piece = schedule_.next()) pieces_.push_back(*piece);
  if (working_ || pieces_.empty()) return advanced;
  working_ = true;
  begin_ = time_.now();
  const DiskPiece& piece = pieces_.front();
  const auto bytes = static_cast<double>(piece.bytes);
  time_.wake_after(
      Seconds(bytes / (piece.write ? profile_.disk_write : profile_.disk_read).at(bytes)), *this);
  return true;
}

void SimDisk::wake() {
  const DiskPiece piece = pieces_.front();
  pieces_.pop_front();
  working_ = false;
  const double took = (time_.now() - begin_).count();
  (piece.write ? traffic_.write_seconds : traffic_.read_seconds) += took;
  if (trace_ != nullptr)
    trace_->span(lane_of(piece), {.name = piece.write ? "write" : "read", .bytes = piece.bytes},
                 begin_, time_.now());
  if (DiskRequest* const over = schedule_.end({piece.id, static_cast<std::int64_t>(piece.bytes)}))
    finish(over);
}

void SimDisk::finish(DiskRequest* request) {
  const auto owned = std::move(active_.extract(request).mapped());
  request->follow_up();
  if (request->failure) return request->completion.fail(request->failure);
  (request->write ? traffic_.written_bytes : traffic_.read_bytes) += request->bytes;
  ++(request->write ? traffic_.writes : traffic_.reads);
  request->completion.succeed();
}

}  // namespace barge
