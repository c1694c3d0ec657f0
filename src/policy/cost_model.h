#pragma once

#include <utility>
#include <vector>

#include "policy/model_shape.h"
#include "policy/operation_cost.h"
#include "policy/policy.h"
#include "policy/profile.h"
#include "policy/workload.h"

namespace barge {

/// What one sweep has to do.
struct SweepLoad {
  double rows = 0;              // new tokens
  double logits = 0;            // rows of the output layer
  double prompt_keys = 0;       // that the rows of prompts attend to, added up
  double read_positions = 0;    // of KV cache that decoding sequences read: their keys
  double reread_positions = 0;  // that later chunks of prompts read again
  bool mean = false;            // of many sweeps, of which each has rows in full tiles
};

/// The steady state of a job of many blocks: B sequences decode, and B s/n prompt tokens enter a
/// sweep (s prompt tokens of its own and n generated ones each).
SweepLoad steady_load(const Workload& job, const Policy& policy);

/// Whether all lines of the job fit in one block.
bool one_block(const Workload& job, const Policy& policy);

/// Seconds that a sweep asks of each resource, as functions of the homes: constants, and terms for
/// a whole share (= 1) at a home.
struct SweepCost {
  // Device (on a unified machine also what a CPU would attend):
  double products = 0;           // 2 P rows / F(rows), rows in full tiles, F at the weights' bits
  double output = 0;             // likewise for the logits, and the drawing of tokens
  double prefill_attention = 0;  // 4 heads dim keys / rate
  double decode_attention = 0;   // KV bytes / rate + 4 heads dim keys / rate
  double other = 0;  // numbers of norms, rotations, activations, KV / rate + calls x their cost
  double weights_down = 0, kv_down = 0, kv_up = 0;     // link; 0 where unified
  double weights_read = 0, kv_read = 0, kv_write = 0;  // disk

  double compute() const {
    return products + output + prefill_attention + decode_attention + other;
  }
};

/// What a sweep with the policy's homes asks of each resource, and what it waits for: they work
/// side by side, but for the disk's two directions.
struct ResourceSeconds {
  double compute = 0, link_down = 0, link_up = 0, disk_read = 0, disk_write = 0;

  double disk() const { return disk_read + disk_write; }
  double longest() const;
  const char* bottleneck() const;  // "compute", "link down", "link up" or "disk"
  ResourceSeconds& operator+=(const ResourceSeconds& other);
  ResourceSeconds operator*(double factor) const;
};
ResourceSeconds at_homes(const SweepCost& cost, const Policy& policy);

/// Prices sweeps of one model under one policy on one machine: what doesn't depend on the load is
/// added up once.
class SweepPricer {
 public:
  /// `profile` outlives it.
  SweepPricer(const Profile& profile, const ModelShape& shape, const Policy& policy);

  SweepCost cost(const SweepLoad& load) const;

 private:
  const Profile& profile_;
  const OperationCost operation_;
  int weight_bits_, kv_bits_;
  double heads_, head_dim_, layers_, vocab_, record_bytes_;
  // Outputs that multiply, of all matrices with so many inputs.
  std::vector<std::pair<double, double>> inputs_and_outputs_;
  double output_inputs_ = 0, output_outputs_ = 0;  // of the output layer
  double numbers_a_row_ = 0, calls_ = 0;
  double weight_bytes_ = 0, read_seconds_ = 0;  // of what a sweep visits
  double kv_read_rate_, kv_write_rate_;
};

}  // namespace barge
