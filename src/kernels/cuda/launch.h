#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <source_location>
#include <type_traits>

#include "kernels/cuda/check.h"

namespace barge::cuda {

/// Where and how wide a kernel runs.
struct Launch {
  dim3 grid, block;
  cudaStream_t stream = nullptr;
  std::size_t shared_bytes = 0;  // dynamic
  std::source_location where = std::source_location::current();
};

/// kernel<<<...>>>(arguments...), without the syntax that only nvcc reads.
template <typename... Parameters>
void launch(const Launch& on, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = on.grid;
  config.blockDim = on.block;
  config.dynamicSmemBytes = on.shared_bytes;
  config.stream = on.stream;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "a kernel launch", on.where);
}

/// Blocks of `block` that cover `count`.
constexpr unsigned blocks_for(std::size_t count, std::size_t block) {
  return static_cast<unsigned>((count + block - 1) / block);
}

}  // namespace barge::cuda
