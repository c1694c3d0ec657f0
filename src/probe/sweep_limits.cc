#include "probe/sweep_limits.h"

#include <algorithm>

#include "policy/footprint.h"

namespace barge {
namespace {

// What isn't known limits nothing.
double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

}  // namespace

double SweepLimits::Seconds::longest() const { return std::max({compute, memory, disk, link}); }

std::string SweepLimits::Seconds::bottleneck() const {
  const double most = longest();
  return most == compute ? "compute" : most == disk ? "disk" : most == memory ? "memory" : "link";
}

SweepLimits::SweepLimits(const MachineLimits& machine, const ModelShape& shape,
                         const Policy& policy, bool unified)
    : machine_(machine),
      key_ops_(4.0 * shape.heads * shape.head_dim * shape.layers),
      kv_position_(static_cast<double>(shape.kv_record_bytes) * shape.layers) {
  const auto homes = panel_homes(shape, policy.weights);
  for (std::size_t m = 0; m < shape.matrices.size(); ++m) {
    const ModelShape::Matrix& matrix = shape.matrices[m];
    if (!matrix.visited) continue;
    const double ops = 2.0 * static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
    const bool output = matrix.rows == shape.vocab;
    (output ? logits_ops_ : row_ops_) += ops;
    (output ? logits_seconds_ : row_seconds_) += over(ops, machine.matrix_ops_of(matrix.cols));
    for (std::size_t p = 0; p < matrix.panel_bytes.size(); ++p) {
      const auto bytes = static_cast<double>(matrix.panel_bytes[p]);
      weights_ += bytes;
      if (homes[m][p] == Tier::kDisk) weights_read_ += bytes;
      if (!unified && homes[m][p] != Tier::kDevice) weights_down_ += bytes;
    }
  }
}

double SweepLimits::operations(const SweepRecord& sweep) const {
  return row_ops_ * static_cast<double>(sweep.prompt_rows + sweep.answer_rows) +
         logits_ops_ * static_cast<double>(sweep.logit_rows) +
         key_ops_ * static_cast<double>(sweep.keys);
}

SweepLimits::Seconds SweepLimits::of(const SweepRecord& sweep) const {
  const auto bytes = [](std::size_t n) { return static_cast<double>(n); };
  Seconds limit;
  limit.compute =
      row_seconds_ * static_cast<double>(sweep.prompt_rows + sweep.answer_rows) +
      logits_seconds_ * static_cast<double>(sweep.logit_rows) +
      over(key_ops_ * static_cast<double>(sweep.keys), machine_.in_16_bits().best_matrix_ops());
  limit.memory = over(weights_ + kv_position_ * static_cast<double>(sweep.read_positions),
                      machine_.memory_read);
  limit.disk = over(weights_read_ + bytes(sweep.kv_read_bytes), machine_.disk_read) +
               over(bytes(sweep.kv_written_bytes), machine_.disk_write);
  limit.link = std::max(over(weights_down_ + bytes(sweep.kv_down_bytes), machine_.link_down),
                        over(bytes(sweep.kv_up_bytes), machine_.link_up));
  return limit;
}

}  // namespace barge
