#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"
#include "kernels/kernels.h"

namespace barge {

/// The table of kernels made for a device, or the plain reference. Throws ConfigError where there
/// are none for it.
std::unique_ptr<Kernels> make_kernels(Device& device, const KernelLimits& limits, bool reference);

/// Bytes of the workspace that make_kernels allocates.
std::size_t workspace_bytes(Device& device, const KernelLimits& limits, bool reference);

}  // namespace barge
