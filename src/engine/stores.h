#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "engine/block.h"
#include "engine/buffers.h"
#include "engine/engine.h"
#include "engine/engine_waits.h"
#include "engine/host_attention.h"
#include "engine/sweep.h"

namespace barge {

/// All that an engine allocates, made from a policy: the weights and the KV cache in their homes,
/// kernels, buffers, and the sweep that works on them. One thread.
class Stores {
 public:
  /// As Engine's constructor.
  Stores(const Pack& pack, const Family& family, Backend& backend, Disk& disk, Budgets& budgets,
         const Engine::Options& options,
         const std::function<void(std::size_t, std::size_t)>& progress);
  /// Waits for the device to finish with the buffers.
  ~Stores();

  const Footprint& footprint() const { return footprint_; }
  BlockLimits limits() const;
  /// Longest prompt + answer: the policy's, the model's, and what an empty KV cache has room for.
  int max_positions() const { return max_positions_; }

  KvStore& kv() { return *kv_; }
  const WeightStore& weights() const { return *weights_; }
  EngineWaits& waits() { return waits_; }
  const EngineWaits& waits() const { return waits_; }
  Sweep& sweep() { return *sweep_; }
  /// Thread-safe.
  double cpu_attention_seconds() const { return host_ ? host_->busy_seconds() : 0; }

 private:
  int longest_that_fits(int positions) const;

  Device& device_;
  const Policy policy_;  // its shares as the device has them
  const bool device_draws_;
  std::unique_ptr<Backend> own_cpu_;  // unless somebody gave one
  Backend* const cpu_;                // that attends beside the device; null: none does
  const KernelLimits kernel_limits_;
  const ModelShape shape_;
  const Footprint footprint_;
  std::unique_ptr<Kernels> kernels_;
  SweepBuffers buffers_;
  EngineWaits waits_;
  std::unique_ptr<WeightStore> weights_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<HostAttention> host_;  // with cpu_; waits for it before the stores go
  std::unique_ptr<Sweep> sweep_;
  int max_positions_ = 0;
};

}  // namespace barge
