#include "offload/traced_disk.h"

#include <sys/stat.h>

#include <array>
#include <unordered_map>
#include <utility>

#include "core/bytes.h"

namespace barge {
namespace {

using Lane = Trace::Lane;

// A disk that never pauses is shown in spans of so much, so that its rate can be seen.
constexpr std::size_t kSpanBytes = 8_MiB;

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
    const Lane lane = lane_of(piece);
    UnderWay& traffic = lanes_[static_cast<std::size_t>(lane)];
    if (traffic.pieces++ == 0) traffic.begin = trace_.now();
    pieces_[piece.id] = {lane, piece.bytes};
    backend_->submit(piece);
  }
  void wait(std::vector<DiskResult>& results) override {
    const std::size_t known = results.size();
    backend_->wait(results);
    for (std::size_t i = known; i < results.size(); ++i) end(results[i].id);
  }
  void wake() override { backend_->wake(); }

 private:
  struct UnderWay {
    std::size_t pieces = 0, bytes = 0;  // bytes: done since `begin`
    Seconds begin{};
  };

  // Weights come from a pack, whose files have names; KV pages from a scratch file without one.
  Lane lane_of(const DiskPiece& piece) {
    if (piece.write) return Lane::kDiskWrite;
    const auto [known, is_new] = nameless_.try_emplace(piece.descriptor, false);
    struct stat info {};
    if (is_new) known->second = fstat(piece.descriptor, &info) == 0 && info.st_nlink == 0;
    return known->second ? Lane::kKvRead : Lane::kWeightRead;
  }

  void end(std::uint64_t id) {
    const auto found = pieces_.find(id);
    const auto [lane, bytes] = found->second;
    pieces_.erase(found);
    UnderWay& traffic = lanes_[static_cast<std::size_t>(lane)];
    traffic.bytes += bytes;
    if (--traffic.pieces > 0 && traffic.bytes < kSpanBytes) return;
    const Seconds now = trace_.now();
    const std::size_t done = std::exchange(traffic.bytes, 0);
    trace_.span(lane, {.name = format_bytes(done), .bytes = done},
                std::exchange(traffic.begin, now), now);
  }

  const std::unique_ptr<DiskBackend> backend_;
  Trace& trace_;
  std::array<UnderWay, static_cast<std::size_t>(Lane::kCount)> lanes_;
  std::unordered_map<std::uint64_t, std::pair<Lane, std::size_t>> pieces_;
  std::unordered_map<int, bool> nameless_;  // by descriptor
};

}  // namespace

std::unique_ptr<DiskBackend> make_traced_disk(std::unique_ptr<DiskBackend> backend, Trace& trace) {
  return std::make_unique<TracedDisk>(std::move(backend), trace);
}

}  // namespace barge
