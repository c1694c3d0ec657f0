#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/device.h"
#include "offload/byte_ring.h"
#include "offload/disk.h"
#include "offload/pack.h"
#include "offload/weight_plan.h"

namespace barge {

/// Brings panels of a pack into memory. Checksums are verified on the disk queue's thread the first
/// time that a panel is read, and by samples later; a damaged panel fails the event with a
/// FormatError. One thread calls (`read` also a second one); the destructor waits for what is under
/// way.
class PanelReader {
 public:
  /// `staging` is pinned memory for reads on their way to a discrete device; empty if unified.
  PanelReader(const Pack& pack, Disk& disk, Device& device, std::span<std::byte> staging);
  ~PanelReader();

  /// From disk into host memory `to` (or a unified device's). The caller waits for the event before
  /// it frees `to`.
  Event read(const PanelRange& range, std::byte* to, IoPriority priority);
  /// From disk into device memory, of any device. Blocks while staging is full of earlier reads.
  Event read_to_device(const PanelRange& range, std::byte* to);
  /// The same, or nothing where staging is full: until oldest_staged() is done.
  std::optional<Event> try_read_to_device(const PanelRange& range, std::byte* to);
  const Event& oldest_staged() const { return staging_ring_.oldest_reader(); }
  /// From host memory into a discrete device's.
  Event send_to_device(const std::byte* from, std::size_t bytes, std::byte* to);

  /// Waits for all events given out by the last three; their failures are their owners' matter.
  void drain();

  std::size_t disk_bytes() const { return disk_bytes_; }
  std::size_t link_bytes() const { return link_bytes_; }

 private:
  std::optional<ByteRing::Space> take_staging(std::size_t bytes);
  void verify(const PanelRange& range, const std::byte* stored);
  Event keep(Event event);

  const Pack& pack_;
  Disk& disk_;
  Device& device_;
  const std::span<std::byte> staging_;
  ByteRing staging_ring_;
  std::deque<Event> under_way_;
  std::atomic<std::size_t> disk_bytes_ = 0, link_bytes_ = 0;

  // Of the disk queue's thread alone:
  std::vector<std::vector<bool>> verified_;  // [tensors][panels]
  std::int64_t reads_of_verified_ = 0;
};

/// Waits for an event whose failure is told elsewhere.
void wait_quietly(const Event& event) noexcept;

}  // namespace barge
