#include "kernels/cuda/check.h"

#include <filesystem>

#include "core/errors.h"

namespace barge::cuda {

void check(cudaError_t result, const char* call, std::source_location where) {
  if (result == cudaSuccess) return;
  throw DeviceError(concat(
      "CUDA failed at ", call, " (", std::filesystem::path(where.file_name()).filename().string(),
      ":", where.line(), "): ", cudaGetErrorName(result), ", ", cudaGetErrorString(result)));
}

}  // namespace barge::cuda
