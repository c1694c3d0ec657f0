#pragma once

#include <string>

#include "engine/sweep_record.h"
#include "policy/model_shape.h"
#include "policy/policy.h"
#include "probe/limits.h"

namespace barge {

/// The shortest time in which this machine could have done a sweep: that of the resource which
/// takes longest, were each at its limit all the time and no other in its way.
///
///   compute   operations / matrix rate. A new token costs 2 operations a weight of the layers
///             (each matrix at the rate of bare oneDNN with as many inputs); a row of logits
///             2 * hidden * vocab; a row 4 * heads * head_dim * layers for each key that it attends
///             to, at the best matrix rate in 16 bits. Tiles that aren't full, decoding of 4-bit
///             weights, norms, softmax and sampling count nothing.
///   memory    weights (as stored, once) and the KV cache that generated rows look back on, read
///             from memory. Only where the CPU computes.
///   disk      weights at home on disk, once, and pages of KV read / disk read rate, and pages
///             written / disk write rate, added: a disk does one or the other.
///   link      the busier direction of a discrete device: weights at home elsewhere, once, and KV.
///
/// A job's limit is the sum over its own sweeps; prefill sweeps are those with prompt tokens.
class SweepLimits {
 public:
  struct Seconds {
    double compute = 0, memory = 0, disk = 0, link = 0;

    double longest() const;
    std::string bottleneck() const;  // "compute", "memory", "disk" or "link"
  };

  /// `policy`: the homes in force.
  SweepLimits(const MachineLimits& machine, const ModelShape& shape, const Policy& policy,
              bool unified);

  Seconds of(const SweepRecord& sweep) const;
  double operations(const SweepRecord& sweep) const;

 private:
  const MachineLimits machine_;
  double row_seconds_ = 0, logits_seconds_ = 0;  // of computing one
  double row_ops_ = 0, logits_ops_ = 0, key_ops_ = 0;
  double weights_read_ = 0, weights_down_ = 0, weights_ = 0;  // bytes a sweep
  double kv_position_ = 0;                                    // bytes, all layers
};

}  // namespace barge
