#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "core/device.h"
#include "engine/block.h"
#include "offload/kv_store.h"

namespace barge {

/// Opens the KV pages of a sweep's micro-batches, layer after layer, ahead of the attention that
/// wants them, as far as staging has room for without waiting. One thread.
class KvPipeline {
 public:
  KvPipeline(KvStore& kv, Device& device, int layers, std::size_t staging_bytes)
      : kv_(kv), device_(device), layers_(layers), staging_bytes_(staging_bytes) {}
  ~KvPipeline() { abandon(); }

  /// A new sweep. Leases of the last one are closed.
  void begin(const Block& block);
  /// Opens the next lease, or several, where that takes no waiting for staging.
  void prefetch();
  /// The next micro-batch's pages, in order: layer 0's micro-batches, layer 1's, ...
  KvStore::Lease take();
  /// Gives back the lease that was taken last.
  void close(KvStore::Lease lease, Event computed);
  /// Closes what was opened ahead, after a failure.
  void abandon() noexcept;

 private:
  struct Closed {
    Event computed;
    std::size_t staged;
  };

  void open();
  bool fits(std::size_t staged);

  KvStore& kv_;
  Device& device_;
  const int layers_;
  const std::size_t staging_bytes_;

  std::vector<std::vector<KvStore::Span>> spans_;  // [micro-batches]
  std::vector<std::size_t> staged_;                // bytes of staging, [micro-batches]
  std::size_t num_opened_ = 0, num_taken_ = 0;     // of layers * micro-batches
  std::size_t held_ = 0;                           // staged by leases that aren't closed
  std::deque<KvStore::Lease> open_;                // opened, not yet taken
  std::deque<Closed> closed_;                      // whose attention may still be under way
};

}  // namespace barge
