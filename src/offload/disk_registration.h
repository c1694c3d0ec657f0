#pragma once

#include <cstddef>
#include <span>

#include "offload/disk.h"

namespace barge {

/// Memory that a disk queue knows as long as this lives. No request uses it when it ends.
class DiskRegistration {
 public:
  DiskRegistration() = default;
  DiskRegistration(Disk& disk, std::span<std::byte> memory) : disk_(&disk), memory_(memory) {
    if (!memory_.empty()) disk_->register_memory({&memory_, 1});
  }
  DiskRegistration(const DiskRegistration&) = delete;
  DiskRegistration& operator=(const DiskRegistration&) = delete;
  ~DiskRegistration() {
    if (!memory_.empty()) disk_->unregister_memory({&memory_, 1});
  }

 private:
  Disk* disk_ = nullptr;
  std::span<std::byte> memory_;
};

}  // namespace barge
