#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.h"
#include "policy/cost_model.h"
#include "policy/footprint.h"
#include "policy/placement.h"
#include "policy/policy.h"
#include "policy/prediction.h"
#include "policy/profile.h"

namespace barge {

enum class CpuAttention { kOff, kOn, kAuto };

/// What the user fixed; the rest is searched.
struct PolicyWishes {
  std::optional<int> gpu_batch_size, num_gpu_batches, sweep_tokens;
  std::optional<std::vector<double>> percent;  // FlexGen's six
  int weight_bits = 4, kv_bits = 16;
  CpuAttention cpu_attention = CpuAttention::kOff;
  int max_positions = 2048;
  int page_positions = 0;  // 0: so that a page is a large request
};

struct Plan {
  Policy policy;
  Footprint footprint;
  Prediction predicted;
  std::optional<Worth> worth;  // of a plan that was searched
};

/// Nothing fits: the nearest policy, and by how much it misses.
struct Infeasible {
  std::string constraint;                             // "device", "host" or "disk"
  std::size_t missing_bytes = 0, smallest_bytes = 0;  // that budget of the tier would do
  Plan nearest;
};

/// What `search` throws where nothing fits. The message names the numbers.
class InfeasibleError : public ConfigError {
 public:
  explicit InfeasibleError(Infeasible what);

  const Infeasible infeasible;
};

/// `shape_for(policy)`: the model's shape, whose workspace depends on the sweep's rows.
using ShapeFor = std::function<ModelShape(const Policy&)>;

/// The plan with the most generated tokens per second: for each number of micro-batches and page
/// size, a linear programme chooses the block and the homes of weights and KV cache; around that
/// block, sizes in full tiles and of like kind are tried, with homes for each; the footprint then
/// says whether it fits to the byte, and the prediction which is best. Ties go to less disk, then
/// to the smaller block. Throws InfeasibleError if nothing fits. The CPU attends by itself only
/// where the profile says how fast it does and the plan gains more than 3 % by it.
Plan search(const Profile& profile, const ShapeFor& shape_for, const Workload& job,
            const TierLimits& limits, const PolicyWishes& wishes);

/// The same for a policy that is given whole: its footprint and prediction.
Plan price(const Profile& profile, const ShapeFor& shape_for, const Workload& job, Policy policy);

/// Why the footprint doesn't fit; none if it does.
std::optional<Infeasible> misfit(const Plan& plan, const TierLimits& limits, bool unified);

}  // namespace barge
