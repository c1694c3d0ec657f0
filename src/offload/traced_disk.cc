#include "offload/traced_disk.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "core/bytes.h"

namespace barge {
namespace {

class TracedDisk final : public DiskBackend {
 public:
  TracedDisk(std::unique_ptr<DiskBackend> backend, Trace& trace)
      : backend_(std::move(backend)), trace_(trace) {}

  std::string name() const override { return backend_->name(); }
  std::string register_memory(std::span<const std::span<std::byte>> buffers) override {
    return backend_->register_memory(buffers);
  }
  void unregister_memory(std::span<const std::span<std::byte>> buffers) override {
    backend_->unregister_memory(buffers);
  }
  void submit(const DiskPiece& piece) override {
    Direction& direction = directions_[piece.write ? 1 : 0];
    if (direction.under_way++ == 0) direction.begin = trace_.now();
    direction.bytes += piece.bytes;
    is_write_[piece.id] = piece.write;
    backend_->submit(piece);
  }
  void wait(std::vector<DiskResult>& results) override {
    const std::size_t known = results.size();
    backend_->wait(results);
    for (std::size_t i = known; i < results.size(); ++i) end(results[i].id);
  }
  void wake() override { backend_->wake(); }

 private:
  struct Direction {
    std::size_t under_way = 0, bytes = 0;
    Seconds begin{};
  };

  void end(std::uint64_t id) {
    const auto found = is_write_.find(id);
    const bool write = found->second;
    is_write_.erase(found);
    Direction& direction = directions_[write ? 1 : 0];
    if (--direction.under_way > 0) return;
    trace_.span(write ? Trace::Lane::kDiskWrite : Trace::Lane::kDiskRead,
                format_bytes(std::exchange(direction.bytes, 0)), direction.begin, trace_.now());
  }

  const std::unique_ptr<DiskBackend> backend_;
  Trace& trace_;
  std::array<Direction, 2> directions_;  // read, write
  std::unordered_map<std::uint64_t, bool> is_write_;
};

}  // namespace

std::unique_ptr<DiskBackend> make_traced_disk(std::unique_ptr<DiskBackend> backend, Trace& trace) {
  return std::make_unique<TracedDisk>(std::move(backend), trace);
}

}  // namespace barge
