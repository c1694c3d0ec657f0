#pragma once

#include "policy/profile.h"

namespace barge {

/// Seconds that a machine takes for the operations of a sweep, from its profile: what the cost
/// model adds up, and what a simulation passes one by one.
class OperationCost {
 public:
  /// `profile` outlives it.
  explicit OperationCost(const Profile& profile) : profile_(profile) {}

  /// [rows, inputs] by [outputs, inputs] with weights of so many bits: 2 rows outputs inputs / F.
  /// Rows are computed in full tiles, so that F is that of the next multiple of the tile, but for
  /// inputs of 8 bits; F is less for few inputs.
  double product(double rows, double outputs, double inputs, int weight_bits) const;
  /// The same where no row is wasted.
  double product_of_full_tiles(double rows, double outputs, double inputs, int weight_bits) const;
  /// Rows of prompts that attend to `keys`, added up: 4 heads dim keys / rate.
  double prefill_attention(double heads, double head_dim, double keys) const;
  /// The row of each decoding sequence attends to its keys, added up: KV bytes / rate +
  /// 4 heads dim keys / rate.
  double decode_attention(double heads, double head_dim, double keys, double record_bytes,
                          int kv_bits) const;
  /// The same by the host's processor, whose rates the profile must have; a record that is appended
  /// costs about as much as a key.
  double host_attention(double heads, double head_dim, double keys, double record_bytes,
                        int kv_bits) const;
  /// Norms, rotations, activation functions, the encoding of KV: per number that comes out.
  double elementwise(double numbers) const { return numbers / profile_.elementwise; }
  /// Tokens from so many logits.
  double draw(double logits) const { return logits / profile_.draw; }
  /// What an operation takes beside the above.
  double call() const { return profile_.call_seconds; }

 private:
  const Profile& profile_;
};

}  // namespace barge
