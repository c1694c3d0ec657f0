#pragma once

#include <memory>

#include "kernels/backend.h"
#include "policy/operation_cost.h"
#include "simulate/sim_device.h"

namespace barge {

/// A simulated device with kernels that take as long as a profile says, and so much memory for
/// themselves. References outlive it.
std::unique_ptr<Backend> make_sim_backend(VirtualTime& time, const Profile& profile,
                                          const SimDevice::Options& options, DType compute,
                                          const PerTier<std::size_t>& workspace, Budgets& budgets);

}  // namespace barge
