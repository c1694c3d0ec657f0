#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "offload/disk.h"
#include "offload/pack.h"
#include "quant/format.h"

namespace barge {

/// What the weights did so far.
struct WeightTraffic {
  std::size_t disk_bytes = 0, link_bytes = 0;  // read from disk, sent to the device
};

/// The weights of a pack, each panel in its home, brought to the device in the order of the sweep.
/// Panels at home on the device (on a unified device: in host memory, whether the home says device
/// or host) stay where they are; the others pass through a ring of device memory, read ahead across
/// parts and sweeps as far as the ring allows. On a discrete device disk panels pass through pinned
/// staging on their way. Look-ups of rows on disk take up to 1 MiB of the ring (unified) or of the
/// staging (discrete). One thread calls; the prefetch runs behind it.
class WeightStore {
 public:
  struct Options {
    std::size_t ring_bytes = 0;     // device memory; at least smallest_ring_bytes
    std::size_t staging_bytes = 0;  // pinned host memory; discrete devices only; at least as much
  };
  /// Two of the pack's largest panels and two of its tables'. Eight and more read well.
  static std::size_t smallest_ring_bytes(const Pack& pack);

  /// Consecutive panels of one matrix, on the device. Move-only; must be released.
  class Run {
   public:
    Run() = default;
    Run(Run&&) = default;
    Run& operator=(Run&&) = default;

    int tensor = 0;  // index into Pack::tensors()
    std::int64_t first_row = 0;
    std::vector<WeightPanel> panels;
    Event ready;  // the device's streams wait for it before they read

   private:
    friend class WeightStore;
    std::int64_t ticket_ = -1;  // of its ring space; -1: at home on the device
  };

  /// `visits`: the matrices (and a tied table) that one sweep multiplies by, in order.
  /// `homes[t][p]`: of panel p of tensor t; vectors are always on the device, whatever it says.
  /// Loads what is at home in memory, with checksums verified and `progress(bytes done, total)`.
  /// Allocates all it will ever need (tags "weights", "weight ring", "weight staging"; no ring
  /// where every panel is at home on the device). Throws ConfigError for a ring or staging too
  /// small, FormatError for a damaged panel, IoError, OutOfMemory.
  WeightStore(const Pack& pack, std::span<const int> visits,
              const std::vector<std::vector<Tier>>& homes, Device& device, Disk& disk,
              const Options& options,
              const std::function<void(std::size_t, std::size_t)>& progress = {});
  ~WeightStore();

  /// The next run of the endless sequence visits, visits, ... A matrix comes as one run or several,
  /// rows ascending. Blocks until memory for it is assigned; its bytes may still be under way, and
  /// a read that fails or a panel that is damaged fails `ready`. Throws the failure of an earlier
  /// run's last reader; throws ConfigError where the ring can't hold one more beside the runs that
  /// the caller holds.
  Run next();
  /// The ring may reuse the run's memory after `last_reader`. The destructor waits for the readers
  /// of the ring, not for those of panels at home on the device.
  void release(Run run, Event last_reader);

  /// A kVector tensor in device memory, f32.
  const float* vector(int tensor) const;

  /// Gathers rows of a table, encoded as one panel of ids.size() rows would be, into device memory
  /// `to` (panel_layout(format, ids.size(), cols).bytes). Blocks while the rows are read from
  /// disk; the compute stream may read after the event. `to` may be overwritten by the next call
  /// only after the previous result was consumed (an event of the caller's). Formats whose groups
  /// lie along the input only.
  Event lookup(int tensor, std::span<const std::int32_t> ids, std::byte* to);

  PerTier<std::size_t> bytes_at_home() const;  // of matrices and tables; disk: those only there
  WeightTraffic traffic() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace barge
