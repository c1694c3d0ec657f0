#pragma once

#include <optional>

#include "policy/cost_model.h"
#include "policy/footprint.h"

namespace barge {

/// Bytes that may be used.
struct TierLimits {
  std::size_t device = 0, host = 0, disk = 0;
};

/// Generated tokens a second that one unit more would bring, first-order.
struct Worth {
  double device_gib = 0, host_gib = 0;  // of memory
  double disk_gbps = 0, link_gbps = 0;  // GB/s of reading (writing in proportion), of each way
  double device_tflops = 0;             // of products
};

/// Where weights and KV cache live, and how large the block is, by linear programming.
struct Placement {
  double block = 0;  // sequences
  PerTier<double> weights, kv;
  double seconds_per_token = 0;  // generated; what the programme minimised
  Worth worth;
};

/// A linear programme after FlexGen's (arXiv 2303.06865), with the block inside: in
/// the shares of weights and KV cache by home, the time per sequence and sweep, and beta = 1 /
/// block, all of them per sequence of the block:
///
///   minimise  sum over phases (sweeps x tau); of equal ones, the smallest beta, then least disk
///   with      compute / B                                           <= tau  for each phase
///             (host attention + output layer + kv_read y_disk) / B  <= tau  where the CPU attends
///             weights_read w_disk + (kv_read + kv_write) / B y_disk <= tau  (disk)
///             weights_down (w_host + w_disk) + kv_down / B (y_host + y_disk) <= tau  (link)
///             W w + KV y + beta fixed + growing <= beta limit               for each tier
///             w_device + w_host + w_disk = beta,  y_device + y_host + y_disk = 1
///
/// A job of many blocks has one phase, the steady sweep; a job of one block has two, of prompts and
/// of answers, and its block is given. Buffers that only exist where weights stream or KV is staged
/// are counted where they do: the programme is solved for each case, and the best one taken. What
/// the block multiplies by at a time (F of the rows) depends on the solution; that is iterated.
/// Where the CPU attends, no KV cache is at home on the device: which layers would be the device's
/// is a matter of the answers' bytes (design §7), and should be the same in every plan of a job,
/// however much memory happens to be free.
///
/// `policy`: micro-batches, page size, bits; its block and shares are replaced. `block`: fixed, or
/// free up to the job's lines. Nothing where no placement fits.
std::optional<Placement> place(const Profile& profile, const ModelShape& shape, const Workload& job,
                               const TierLimits& limits, const Policy& policy,
                               std::optional<double> block);

/// Rows of a sweep in which a block's prompts keep pace with its answers, in full tiles: what
/// admission then follows, so that lines of equal lengths don't fall into step.
int steady_rows(const Workload& job, int sequences);

}  // namespace barge
