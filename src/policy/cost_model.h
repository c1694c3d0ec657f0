#pragma once

#include <string>

#include "policy/model_shape.h"
#include "policy/policy.h"
#include "policy/profile.h"

namespace barge {

/// A job, by its means.
struct Workload {
  double prompt_len = 512, gen_len = 32;  // tokens
  double num_prompts = 1000;
};

/// Seconds that one sweep of the steady state (B sequences decode, B s/n prompt tokens enter) asks
/// of each resource, as functions of the homes: constant + the terms below times the shares.
/// Symbols as in the planning literature on FlexGen: s prompt, n generated tokens, B sequences.
struct SweepCost {
  double rows = 0;  // B (s + n - 1) / n, in full row tiles
  // Device (on a unified machine also what a CPU would attend):
  double products = 0;    // 2 P rows / F(rows)
  double dequantise = 0;  // weights once a sweep / rate
  double attention = 0;   // 4 heads dim (decode context + prompt context) / rate
  double output = 0;      // B rows through the output layer: counted apart, not every row has it
  // Per whole share (= 1) at a home:
  double weights_down = 0, kv_down = 0, kv_up = 0;     // link; 0 where unified
  double weights_read = 0, kv_read = 0, kv_write = 0;  // disk

  double compute() const { return products + dequantise + attention + output; }
};
SweepCost sweep_cost(const Profile& profile, const ModelShape& shape, const Workload& job,
                     const Policy& policy);

/// What a plan promises.
struct Prediction {
  double sweep_seconds = 0, seconds = 0;  // one sweep; the whole job
  double generated_tokens_per_s = 0, total_tokens_per_s = 0;
  std::string bottleneck;  // "compute", "link down", "link up" or "disk"
};
Prediction predict(const SweepCost& cost, const Profile& profile, const Workload& job,
                   const Policy& policy);

/// Rows that a matrix product is cut into; fewer cost the same.
inline constexpr double kRowTile = 64;

}  // namespace barge
