#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/device.h"
#include "offload/disk.h"
#include "quant/format.h"

namespace barge {

struct KvTraffic {
  std::size_t disk_read_bytes = 0, disk_written_bytes = 0;
  std::size_t link_down_bytes = 0, link_up_bytes = 0;
};

/// The paged KV cache of all live sequences. A page holds `page_positions` records of one sequence
/// in one layer; pages are reference-counted, so that sequences can share them (copied on write).
/// All pages of a sequence in a layer have one home. Pages at home on disk are written once, when
/// they fill; until the write is done they are read from memory, and the partly filled tail stays
/// in host memory. One thread calls; loads and write-backs run behind it.
class KvStore {
 public:
  struct Options {
    KvFormat format;
    int layers = 0;
    int page_positions = 0;               // page bytes are rounded up to 4096
    PerTier<double> share;                // of the KV cache by home; sum 1
    PerTier<std::size_t> capacity_bytes;  // of pages; host: tails of disk pages included
    std::size_t swap_bytes = 0;           // of disk, beyond the capacity: for what is swapped out
    std::size_t staging_bytes = 0;        // device memory for pages that aren't at home there
    std::size_t host_staging_bytes = 0;   // if discrete: host memory between the disk and the
                                          // device, for disk pages and swapped device pages
    std::filesystem::path disk_directory;
    // The CPU, where it attends beside a discrete device: generated positions of all layers but
    // `device_layers` of them, evenly spread. KV is at home on the device only in these.
    Device* attending_host = nullptr;
    int device_layers = 0;
  };
  using SequenceId = std::int64_t;

  /// Allocates everything (tags "kv cache", "kv staging"); disk pages are reserved in
  /// `disk_budget` and live in a nameless file.
  KvStore(const Options& options, Device& device, Disk& disk, MemoryBudget& disk_budget);
  ~KvStore();

  /// The home of each layer of a sequence, [layers].
  using Placement = std::vector<Tier>;
  /// Homes for one more sequence of up to `max_positions`, so that the shares are met over all
  /// sequences and layers. Changes nothing.
  Placement place(int max_positions) const;
  /// Bytes that a sequence so placed holds at its peak up to `positions`: what admission adds up
  /// against capacity_bytes for each later sweep. host includes tails of disk layers.
  PerTier<std::size_t> bytes(const Placement& placement, int positions) const;
  /// What it holds of that between sweeps: no tail where the last page is full.
  PerTier<std::size_t> bytes_at_rest(const Placement& placement, int positions) const;
  const PerTier<std::size_t>& capacity() const;  // without swap_bytes

  SequenceId add(const Placement& placement, int max_positions);
  /// A new sequence that shares the first `positions` positions of another.
  SequenceId fork(SequenceId of, int positions, int max_positions);
  /// Its pages are reused after the events of their last readers and writers.
  void remove(SequenceId sequence);
  /// Moves all pages in memory to disk and back (only between sweeps). While it is out, the
  /// sequence holds no memory; of disk all that `bytes` says of it, against capacity + swap_bytes.
  void swap_out(SequenceId sequence);
  void swap_in(SequenceId sequence);

  /// New positions [first_position, first_position + rows) of a sequence in this sweep.
  struct Span {
    SequenceId sequence = 0;
    std::int32_t first_position = 0, rows = 0;
    bool generated = false;  // attended by the host in the layers that are the host's
  };
  /// Whether generated positions are attended by the host in this layer, whatever the sequence.
  bool attends_on_host(int layer) const;
  /// The pages of one micro-batch in one layer, for whoever attends. Move-only; must be closed.
  class Lease {
   public:
    Lease();
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    /// Addresses of the pages of span i, covering [0, first_position + rows): the device's, or the
    /// host's where it attends.
    std::span<std::byte* const> pages(std::size_t i) const;
    Event ready;  // the attending stream waits for it

   private:
    friend class KvStore;
    struct State;
    std::unique_ptr<State> state_;
  };
  /// Each span must begin where its sequence ends in this layer (rows 0: only read), and a sequence
  /// can have one open lease a layer. Until it is closed it can't be removed, forked or swapped.
  /// The spans of a lease have one place of attention. Assigns pages for the new positions and
  /// starts to load what isn't there. Blocks while staging is full of earlier leases. Throws
  /// OutOfMemory if it can never fit.
  Lease open(int layer, std::span<const Span> spans);
  /// After `computed`, the new records go home, and staging is free again. Like `open`, `swap_*`,
  /// `fork` and (once) `remove` it throws IoError if an earlier write to disk failed.
  void close(Lease lease, Event computed);
  /// Staged bytes that `open` would take for these spans in the worst layer.
  std::size_t staging_needed(std::span<const Span> spans) const;

  PerTier<std::size_t> bytes_held() const;  // pages now in use by tier; disk: swapped ones, too
  PerTier<std::size_t> peak_bytes_held() const;
  KvTraffic traffic() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace barge
