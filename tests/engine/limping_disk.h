#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "offload/disk_backend.h"

namespace barge {

/// A real disk that does what Linux may do at any time: of some pieces only a part, and some not at
/// all for now (EAGAIN, EINTR). The queue has to ask again for what is left. Which ones follows
/// from the seed and the order in which pieces come.
class LimpingDisk final : public DiskBackend {
 public:
  struct Counts {
    std::size_t pieces = 0, faults = 0;
  };

  /// `counts` must outlive the disk, and may be read when it is gone.
  LimpingDisk(std::unique_ptr<DiskBackend> disk, std::uint32_t seed, Counts& counts)
      : disk_(std::move(disk)), random_(seed), counts_(counts) {}

  std::string name() const override { return disk_->name(); }
  std::string register_memory(std::span<const std::span<std::byte>> buffers) override {
    return disk_->register_memory(buffers);
  }
  void unregister_memory(std::span<const std::span<std::byte>> buffers) override {
    disk_->unregister_memory(buffers);
  }
  void submit(const DiskPiece& piece) override {
    DiskPiece part = piece;
    ++counts_.pieces;
    switch (random_() % 8) {
      case 0:
        ++counts_.faults;
        refused_.push_back({piece.id, random_() % 2 == 0 ? -EAGAIN : -EINTR});
        return;
      case 1:
        ++counts_.faults;
        part.bytes = round_up(1 + random_() % piece.bytes, kSectorBytes);
        break;
      default:
        break;
    }
    disk_->submit(part);
  }
  void wait(std::vector<DiskResult>& results) override {
    if (!refused_.empty()) disk_->wake();  // what is refused needs no waiting
    disk_->wait(results);
    for (const DiskResult& refused : std::exchange(refused_, {})) results.push_back(refused);
  }
  void wake() override { disk_->wake(); }

 private:
  const std::unique_ptr<DiskBackend> disk_;
  std::mt19937 random_;
  Counts& counts_;
  std::vector<DiskResult> refused_;
};

}  // namespace barge
