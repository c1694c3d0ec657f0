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
  double answers = 0;           // of them those of decoding sequences
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
  // Device:
  double products = 0;           // 2 P rows / F(rows), rows in full tiles, F at the weights' bits
  double output = 0;             // likewise for the logits, and the drawing of tokens
  double prefill_attention = 0;  // 4 heads dim keys / rate
  double decode_attention = 0;   // KV bytes / rate + 4 heads dim keys / rate
  double other = 0;  // numbers of norms, rotations, activations, KV / rate + calls x their cost
  // Link; 0 where unified. Where the CPU attends, what crosses it for answers are queries, keys and
  // values, and the results, not the KV cache.
  double weights_down = 0, kv_down = 0, kv_up = 0;
  double weights_read = 0, kv_read = 0, kv_write = 0;  // disk
  // Where the CPU attends to what isn't at home on the device:
  bool cpu_attends = false;
  double host_attention = 0;  // the processor's, as decode_attention
  double results_down = 0;    // part of kv_down, for which the device waits

  /// Of the device, where such a share of the KV cache is at home there.
  double compute(double kv_device) const {
    const double elsewhere = 1 - kv_device;
    return products + output + prefill_attention + other +
           (cpu_attends ? kv_device : 1) * decode_attention + elsewhere * results_down;
  }
};

/// What a sweep with the policy's homes asks of each resource, and what it waits for: they work
/// side by side, but for the disk's two directions.
struct ResourceSeconds {
  double compute = 0, link_down = 0, link_up = 0, disk_read = 0, disk_write = 0;
  double host_attention = 0;  // the processor's, beside the device
  // Parts of the others' time in which the processor can't attend, where it does: that of the
  // output layer, which comes after all attention, and that in which pages come from the disk, for
  // which its turn waits.
  double attention_waits = 0;

  double disk() const { return disk_read + disk_write; }
  double longest() const;
  const char* bottleneck() const;  // "compute", "link down", "link up", "disk", "CPU attention"
  ResourceSeconds& operator+=(const ResourceSeconds& other);
  ResourceSeconds operator*(double factor) const;
};
/// `kv`: the shares as they are met (kv_shares).
ResourceSeconds at_homes(const SweepCost& cost, const PerTier<double>& weights,
                         const PerTier<double>& kv);

/// Prices sweeps of one model under one policy on one machine: what doesn't depend on the load is
/// added up once.
class SweepPricer {
 public:
  /// `profile` outlives it. Where the CPU is to attend and the profile doesn't say how fast, a plan
  /// is priced as if the device did.
  SweepPricer(const Profile& profile, const ModelShape& shape, const Policy& policy);

  SweepCost cost(const SweepLoad& load) const;
  /// With the policy's homes.
  ResourceSeconds seconds(const SweepLoad& load) const {
    return at_homes(cost(load), weights_, kv_);
  }

 private:
  void add_cpu_attention(SweepCost& cost, const SweepLoad& load) const;

  const Profile& profile_;
  const OperationCost operation_;
  const PerTier<double> weights_, kv_;
  const bool cpu_attends_;
  int weight_bits_, kv_bits_;
  double heads_, head_dim_, layers_, vocab_, record_bytes_, projected_bytes_, attended_bytes_;
  // Outputs that multiply, of all matrices with so many inputs.
  std::vector<std::pair<double, double>> inputs_and_outputs_;
  double output_inputs_ = 0, output_outputs_ = 0;  // of the output layer
  double numbers_a_row_ = 0, calls_ = 0;
  double weight_bytes_ = 0, read_seconds_ = 0;  // of what a sweep visits
  double kv_read_rate_, kv_write_rate_;
};

}  // namespace barge
