// What nvcc adds to the runtime: words of the language, threads' coordinates, launches.
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __constant__
// The threads of all blocks run on one thread of the host. Being thread-local puts all shared
// memory of a library into one piece, which is filled with garbage before a block runs.
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

#include "emulated_math.h"
#include "emulated_threads.h"

namespace cuda_emulation {

/// `thread` is called once a thread of the grid, on the device's own thread.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread);

}  // namespace cuda_emulation

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  std::tuple<Parameters...> kept(std::forward<Arguments>(arguments)...);
  return cuda_emulation::launch(*config, reinterpret_cast<const void*>(kernel),
                                [kernel, kept] { std::apply(kernel, kept); });
}
