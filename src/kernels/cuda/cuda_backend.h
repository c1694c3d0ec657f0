#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda_plugin.h"

namespace barge::cuda {

/// The first GPU of this machine. Throws ConfigError, saying what was wanted and found, where there
/// is none that barge runs on: a driver for the major version of CUDA that barge was built with, or
/// a later one, and compute capability 7.5 (Turing) or later.
GpuInfo find_gpu();

/// As CudaPlugin::make_backend.
std::unique_ptr<Backend> make_cuda_backend(Budgets& budgets);

}  // namespace barge::cuda
