#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/engine_stats.h"
#include "engine/request.h"
#include "engine/sweep_record.h"
#include "kernels/backend.h"
#include "model/family.h"
#include "offload/disk.h"
#include "offload/kv_store.h"
#include "offload/pack.h"
#include "offload/weight_store.h"
#include "policy/footprint.h"
#include "policy/policy.h"

namespace barge {

class Trace;

/// Requests in, tokens out: one thread that sweeps the block through the model. Thread-safe.
class Engine {
 public:
  struct Options {
    Policy policy;
    DType compute = DType::kF32;
    int activation_bits = 16;  // as KernelLimits'
    int kv_group = 64;
    std::filesystem::path disk_directory;  // of KV pages
    std::vector<TokenId> eos;
    bool hash_logits = false;  // fill SampledToken::logits_hash; tokens are drawn on the host then
    /// Sequences of the block that only urgent requests may take.
    int reserved_sequences = 0;
    /// The CPU that attends beside a discrete device where the policy wants that; must outlive the
    /// engine. Null: the engine makes itself one of so many threads (0: all but two, which feed the
    /// device and the disk meanwhile).
    Backend* attention = nullptr;
    int attention_threads = 0;
    /// Called on the engine's thread when it ends because of this, before any request is told.
    std::function<void(const std::exception&)> on_failure;
    /// Called on the engine's thread at the end of each sweep; must be quick.
    std::function<void(const SweepRecord&)> on_sweep;
    Trace* trace = nullptr;  // told of what the engine's thread waits for; outlives the engine
  };

  /// Loads what is at home in memory (with `progress(bytes done, total)`) and allocates all
  /// buffers: afterwards nothing is allocated on the device. Throws what loading throws.
  /// Everything passed by reference must outlive the engine.
  Engine(const Pack& pack, const Family& family, Backend& backend, Disk& disk, Budgets& budgets,
         const Options& options,
         const std::function<void(std::size_t, std::size_t)>& progress = {});
  /// Ends what runs as cancelled.
  ~Engine();

  using RequestId = std::uint64_t;
  /// Throws RequestError for what can never run: no tokens, an id outside the vocabulary, prompt +
  /// max_tokens beyond max_positions (naming both), KV that never fits.
  RequestId submit(GenerationRequest request);
  /// The request ends at the end of the sweep; unknown ids are ignored.
  void cancel(RequestId id);

  /// Longest prompt + answer.
  int max_positions() const;
  int vocab() const;
  EngineStats stats() const;
  /// Empty while the engine is well; else why it ended (a failed read): all requests since then
  /// end with this as error.
  std::string failure() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Bounds of the kernel table that an engine makes.
KernelLimits kernel_limits(const Family& family, const Policy& policy, DType compute,
                           int activation_bits = 16);

/// Bytes of workspace of the CPU that attends beside a device, made as Options::attention_threads
/// says.
std::size_t attention_workspace_bytes(const ModelConfig& config, int threads);

/// The shape that plans are made of, from a family and its tensors' formats at these bits.
/// `format_of(tensor)`: how the pack stores (or would store) it.
ModelShape shape_of(const Family& family,
                    const std::function<WeightFormat(const TensorSpec&)>& format_of, int kv_bits,
                    int kv_group, const KernelLimits& limits,
                    const PerTier<std::size_t>& workspace_bytes);

}  // namespace barge
