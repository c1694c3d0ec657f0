#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "core/device.h"
#include "engine/block.h"
#include "offload/kv_store.h"

namespace barge {

/// What a member adds to the KV cache in a sweep.
KvStore::Span kv_span(const Block::Member& member);

/// Opens the KV pages of a sweep's micro-batches, layer after layer, ahead of the attention that
/// wants them, as far as staging has room for without waiting. One thread.
class KvPipeline {
 public:
  KvPipeline(KvStore& kv, Device& device, int layers, std::size_t staging_bytes)
      : kv_(kv), device_(device), layers_(layers), staging_bytes_(staging_bytes) {}
  ~KvPipeline() { abandon(); }

  /// The members of a micro-batch that one side attends to, and their pages. May be none.
  struct Side {
    std::span<const Block::Member* const> members;
    KvStore::Lease lease;
  };
  /// A micro-batch in one layer.
  struct Pages {
    Side device, host;
  };

  /// A new sweep. Leases of the last one are closed. The block is needed until the next one.
  void begin(const Block& block);
  /// Opens the next micro-batch where that takes no waiting for staging: one at a time, so that on
  /// a link KV cache and weights follow each other, as they are wanted.
  void prefetch();
  /// The next micro-batch's pages, in order: layer 0's micro-batches, layer 1's, ...
  Pages take();
  /// Gives back what was taken last, after the attention of each side.
  void close(Pages pages, Event by_device, Event by_host);
  /// Closes what was opened ahead, after a failure.
  void abandon() noexcept;

 private:
  struct Members {
    std::vector<const Block::Member*> members;
    std::vector<KvStore::Span> spans;

    void add(const Block::Member& member);
  };
  struct Batch {
    Members all, prompts, answers;
    std::size_t staged = 0;  // bytes of staging
  };
  struct Closed {
    Event by_device, by_host;
    std::size_t staged;
  };

  void open();
  Side open(int layer, const Members& members);
  void close(Side side, Event attended);
  bool fits(std::size_t staged);

  KvStore& kv_;
  Device& device_;
  const int layers_;
  const std::size_t staging_bytes_;

  std::vector<Batch> batches_;                  // micro-batches
  std::size_t num_opened_ = 0, num_taken_ = 0;  // of layers * micro-batches
  std::size_t held_ = 0;                        // staged by leases that aren't closed
  std::deque<Pages> open_;                      // opened, not yet taken
  std::deque<Closed> closed_;                   // whose attention may still be under way
};

}  // namespace barge
