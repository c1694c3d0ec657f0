#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cuda/cuda_device.h"
#include "kernels/kernels.h"

namespace barge::cuda {

/// Bytes of device memory that make_cuda_kernels allocates (tag "workspace").
std::size_t cuda_workspace_bytes(const KernelLimits& limits);

/// The GPU's table of kernels. It also pins kUploadBytes and a page of host memory (tag "uploads").
/// Throws ConfigError for a compute type that the GPU doesn't multiply. Must neither outlive
/// `device` nor be destroyed before its work is done.
std::unique_ptr<Kernels> make_cuda_kernels(CudaDevice& device, const KernelLimits& limits);

/// Of lists of pages, rows and positions on their way to the device.
inline constexpr std::size_t kUploadBytes = 4 << 20;

}  // namespace barge::cuda
