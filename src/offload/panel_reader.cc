#include "offload/panel_reader.h"

#include <memory>

namespace barge {
namespace {

constexpr std::int64_t kSampleEvery = 64;  // of the reads of a panel that was verified before

}  // namespace

void wait_quietly(const Event& event) noexcept {
  try {
    event.wait();
  } catch (...) {
  }
}

PanelReader::PanelReader(const Pack& pack, Disk& disk, Device& device, std::span<std::byte> staging)
    : pack_(pack), disk_(disk), device_(device), staging_(staging), staging_ring_(staging.size()) {
  for (const PackTensor& tensor : pack.tensors()) verified_.emplace_back(tensor.panels.size());
}

PanelReader::~PanelReader() { drain(); }

Event PanelReader::read(const PanelRange& range, std::byte* to, IoPriority priority) {
  const PackPanel& first =
      pack_.tensors()[static_cast<std::size_t>(range.tensor)].panels[range.first];
  return disk_.read(pack_.file(first.file), first.offset, {to, stored_bytes(pack_, range)},
                    priority, [this, range, to] { verify(range, to); });
}

Event PanelReader::read_to_device(const PanelRange& range, std::byte* to) {
  for (;;) {
    if (auto event = try_read_to_device(range, to)) return *std::move(event);
    wait_quietly(oldest_staged());
  }
}

std::optional<Event> PanelReader::try_read_to_device(const PanelRange& range, std::byte* to) {
  if (device_.unified()) return keep(read(range, to, IoPriority::kWeightRead));
  const std::size_t bytes = stored_bytes(pack_, range);
  const auto space = take_staging(bytes);
  if (!space) return std::nullopt;
  std::byte* const staged = staging_.data() + space->offset;
  // Shared by the two callbacks of the read and by the copy, whichever ends it.
  const auto arrived = std::make_shared<Completion>();
  const Event event = arrived->event();
  const PackPanel& first =
      pack_.tensors()[static_cast<std::size_t>(range.tensor)].panels[range.first];
  disk_.read(
      pack_.file(first.file), first.offset, {staged, bytes}, IoPriority::kWeightRead,
      [this, range, bytes, staged, to, arrived] {
        verify(range, staged);
        link_bytes_ += bytes;
        // Only now does the copy enter the stream: one that waited there for the disk would hold
        // up all copies of the KV cache behind it.
        device_.load().copy(to, Tier::kDevice, staged, Tier::kHost, bytes);
        arrived->succeed(device_.load().record());
      },
      [arrived](const std::exception_ptr& failure) { arrived->fail(failure); });
  staging_ring_.release(space->ticket, event);
  return keep(event);
}

Event PanelReader::send_to_device(const std::byte* from, std::size_t bytes, std::byte* to) {
  link_bytes_ += bytes;
  device_.load().copy(to, Tier::kDevice, from, Tier::kHost, bytes);
  return keep(device_.load().record());
}

void PanelReader::drain() {
  for (const Event& event : under_way_) wait_quietly(event);
  under_way_.clear();
}

std::optional<ByteRing::Space> PanelReader::take_staging(std::size_t bytes) {
  while (!staging_ring_.empty() && staging_ring_.oldest_reader().done())
    staging_ring_.drop_oldest();
  return staging_ring_.try_take(bytes);
}

void PanelReader::verify(const PanelRange& range, const std::byte* stored) {
  const auto t = static_cast<std::size_t>(range.tensor);
  const PackTensor& tensor = pack_.tensors()[t];
  for (std::size_t p = range.first; p < range.first + range.count; ++p) {
    const std::size_t bytes = tensor.panels[p].stored_bytes();
    if (!verified_[t][p] || ++reads_of_verified_ % kSampleEvery == 0)
      pack_.check(tensor, tensor.panels[p], {stored, bytes});
    verified_[t][p] = true;
    stored += bytes;
    disk_bytes_ += bytes;
  }
}

Event PanelReader::keep(Event event) {
  while (!under_way_.empty() && under_way_.front().done()) under_way_.pop_front();
  under_way_.push_back(event);
  return event;
}

}  // namespace barge
