#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tier.h"

namespace barge {

/// How a job is run: block, homes, bits. Chosen by `search` or by the user.
struct Policy {
  int gpu_batch_size = 1;            // sequences in a micro-batch
  int num_gpu_batches = 1;           // micro-batches in a block
  PerTier<double> weights{0, 1, 0};  // shares by home, each sums to 1
  PerTier<double> kv{0, 1, 0};
  PerTier<double> activations{1, 0, 0};  // hidden states; elsewhere than on the device: later
  int weight_bits = 4;                   // 4, 8, 16, 32
  int kv_bits = 16;                      // 4, 16, 32
  bool cpu_attention = false;            // the CPU attends where KV isn't the device's
  int page_positions = 16;               // records of a KV page
  int sweep_tokens = 256;    // most rows of a sweep: decoding sequences first, then prompt chunks
  int max_positions = 2048;  // longest prompt + answer
  int kv_positions = 0;      // of a sequence, for which KV is planned; 0: max_positions
  // Let sequences in by what they are planned to need, and put some aside where they outgrow it;
  // else by what they may need at most.
  bool over_commit = true;
  bool prefix_sharing = true;  // prompts that begin alike compute and store that once
  std::size_t ring_bytes = 0;  // of the weight ring
  // Micro-batches whose KV cache is staged at once, where it isn't at home on the device: one is
  // attended to, the others are on their way.
  int staged_batches = 2;

  int block_sequences() const { return gpu_batch_size * num_gpu_batches; }
  int planned_positions() const {
    return kv_positions > 0 && kv_positions < max_positions ? kv_positions : max_positions;
  }
  bool operator==(const Policy&) const = default;
};

inline bool operator==(const PerTier<double>& a, const PerTier<double>& b) {
  return a.device == b.device && a.host == b.host && a.disk == b.disk;
}

/// The keys of conventions.md (`policy{}`) and back; throws ConfigError, naming `source` and key.
std::string policy_to_json(const Policy& policy);
Policy policy_from_json(const std::string& text, const std::string& source);

/// FlexGen's six numbers (weights, KV, activations on GPU and CPU, in percent; the rest is on
/// disk) into shares. Throws ConfigError for what is no share.
void set_percent(Policy& policy, const std::vector<double>& percent);
std::vector<double> percent_of(const Policy& policy);

}  // namespace barge
