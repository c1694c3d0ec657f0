#pragma once

#include <cstddef>
#include <vector>

#include "core/tier.h"
#include "policy/model_shape.h"
#include "policy/policy.h"

namespace barge {

/// Bytes of everything that a run allocates, exactly as MemoryBudget counts it: the engine sizes
/// its buffers from here, so that plan and run can't disagree. Multiples of 4096.
struct Footprint {
  // Buffers on the device.
  std::size_t vectors = 0, hidden = 0, scratch = 0, attended = 0, wanted = 0, lookup = 0;
  std::size_t workspace = 0, weight_ring = 0, kv_staging = 0;
  std::size_t projected = 0;  // q, k, v beside scratch: where the CPU attends
  // Buffers on the host. A unified device has no weight_staging, kv_host_staging, logits_host.
  std::size_t tokenizer = 0, weight_staging = 0, kv_host_staging = 0;
  std::size_t logits_host = 0, sampler = 0, workspace_host = 0;
  std::size_t attention_rows = 0, attention_workspace = 0;  // where the CPU attends
  // On both sides of a link: tokens that the device draws. None on a unified device.
  std::size_t ids = 0;
  // By home.
  PerTier<std::size_t> weights, kv;  // kv.host includes the tails of disk pages
  std::size_t kv_swap = 0;           // on disk, for sequences that are put aside
  std::size_t pack = 0;              // the whole model, always on disk

  /// Sum of a tier; on a unified device device and host are one (`host`).
  std::size_t total(Tier tier, bool unified) const;
};

/// Homes of every panel, [matrix][panel]: within one panel a part of the shares, spread evenly
/// over the parts, the first panels of a matrix on the device, the last on disk.
std::vector<std::vector<Tier>> panel_homes(const ModelShape& shape, const PerTier<double>& weights);

/// Whether the CPU attends: where the policy wants it, and the device isn't the CPU itself.
bool attends_on_host(const Policy& policy, bool unified);

/// Where the CPU attends, the layer alone decides the place (design §7): in so many layers, all
/// sequences' KV is at home on the device (or on disk) and attended there; in the others it is at
/// home on the host or on disk, and the CPU attends to it. As many as the policy's share covers.
int device_attention_layers(const Policy& policy, int layers);

/// The shares of the KV cache as they are met: where the CPU attends, the device's in whole layers,
/// and what is left in proportion on host and disk.
PerTier<double> kv_shares(const Policy& policy, int layers, bool unified);

/// Bytes of a KV page, and pages of `positions`.
std::size_t page_bytes(const ModelShape& shape, const Policy& policy);

Footprint footprint(const ModelShape& shape, const Policy& policy, bool unified);

}  // namespace barge
