#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace barge::cuda {

/// Throws DeviceError, naming the call, what CUDA said and the place, unless it succeeded.
void check(cudaError_t result, const char* call,
           std::source_location where = std::source_location::current());

}  // namespace barge::cuda
