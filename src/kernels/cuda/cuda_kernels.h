#pragma once

#include <cstddef>
#include <memory>

#include "core/tier.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/kernels.h"

namespace barge::cuda {

/// Bytes that make_cuda_kernels allocates on the device (tag "workspace") and pins on the host (tag
/// "uploads").
PerTier<std::size_t> cuda_workspace_bytes(const KernelLimits& limits);

/// The GPU's table of kernels.
/// Throws ConfigError for a compute type that the GPU doesn't multiply. Must neither outlive
/// `device` nor be destroyed before its work is done.
std::unique_ptr<Kernels> make_cuda_kernels(CudaDevice& device, const KernelLimits& limits);

/// Of lists of pages, rows and positions on their way to the device.
inline constexpr std::size_t kUploadBytes = 4 << 20;

}  // namespace barge::cuda
