#pragma once

#include <string>

#include "policy/model_shape.h"
#include "policy/policy.h"
#include "policy/profile.h"

namespace barge {

/// A job, by its means and its longest line.
struct Workload {
  double prompt_len = 512, gen_len = 32;  // tokens
  double num_prompts = 1000;
  double longest = 0;  // prompt + answer; 0: not known
};

/// What one sweep has to do. In the steady state B sequences decode and B s/n prompt tokens enter
/// a sweep (s prompt, n generated tokens each); a job of one block has prefill and decode sweeps.
struct SweepLoad {
  double rows = 0;            // new tokens
  double logits = 0;          // rows of the output layer
  double prompt_keys = 0;     // that the rows of prompts attend to, added up
  double read_positions = 0;  // of KV cache that decoding sequences read: their keys
};
SweepLoad steady_load(const Workload& job, const Policy& policy);
SweepLoad prefill_load(const Workload& job, const Policy& policy);
SweepLoad decode_load(const Workload& job, const Policy& policy);

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
  double other = 0;              // inputs of products / elementwise rate + calls x their fixed cost
  double weights_down = 0, kv_down = 0, kv_up = 0;     // link; 0 where unified
  double weights_read = 0, kv_read = 0, kv_write = 0;  // disk

  double compute() const {
    return products + output + prefill_attention + decode_attention + other;
  }
};
SweepCost sweep_cost(const Profile& profile, const ModelShape& shape, const SweepLoad& load,
                     const Policy& policy);

/// The resource that a sweep with the policy's homes waits for, and for how long.
struct Bottleneck {
  double seconds = 0;
  std::string name;  // "compute", "link down", "link up" or "disk"
};
Bottleneck bottleneck(const SweepCost& cost, const Policy& policy);

/// What a plan promises.
struct Prediction {
  double sweep_seconds = 0, seconds = 0;  // one sweep; the whole job
  double generated_tokens_per_s = 0, total_tokens_per_s = 0;
  std::string bottleneck;  // "compute", "link down", "link up" or "disk"
};
Prediction predict(const Profile& profile, const ModelShape& shape, const Workload& job,
                   const Policy& policy);

}  // namespace barge
