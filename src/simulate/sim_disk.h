#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/trace.h"
#include "offload/disk.h"
#include "offload/disk_request.h"
#include "offload/disk_schedule.h"
#include "policy/profile.h"
#include "simulate/virtual_time.h"

namespace barge {

/// A disk of virtual time: one request after the other, in the order of the real queue's schedule,
/// each for its bytes at the rate of its size. No bytes are moved. One thread.
class SimDisk final : public Disk, public VirtualTime::Actor {
 public:
  /// References outlive it. `weights`: the descriptor of the pack's file. `trace` may be null.
  SimDisk(VirtualTime& time, const Profile& profile, int weights, Trace* trace);

  void register_memory(std::span<const std::span<std::byte>>) override {}
  void unregister_memory(std::span<const std::span<std::byte>>) override {}
  Event read(const DiskFile& file, std::uint64_t offset, std::span<std::byte> to,
             IoPriority priority, Then then = {}, Otherwise otherwise = {}) override;
  Event write(const DiskFile& file, std::uint64_t offset, std::span<const std::byte> from,
              Event after = {}, Then then = {}) override;
  void call_after(Event event, std::function<void()> work) override;
  DiskTraffic traffic() const override { return traffic_; }

  bool advance() override;
  void wake() override;

 private:
  Trace::Lane lane_of(const DiskPiece& piece) const;
  void begin(std::unique_ptr<DiskRequest> request);
  void finish(DiskRequest* request);

  VirtualTime& time_;
  const Profile& profile_;
  const int weights_;
  Trace* const trace_;
  DiskSchedule schedule_;
  std::unordered_map<DiskRequest*, std::unique_ptr<DiskRequest>> active_;
  std::deque<std::pair<Event, std::unique_ptr<DiskRequest>>> held_;  // writes
  std::deque<std::pair<Event, std::function<void()>>> calls_;
  std::deque<DiskPiece> pieces_;  // begun, the front one under way
  bool working_ = false;
  Seconds begin_{};
  DiskTraffic traffic_;
};

}  // namespace barge
