#pragma once

#include <cuda_runtime.h>

namespace barge::cuda {

/// A block's dynamic shared memory (Launch::shared_bytes), aligned to 16 bytes. One piece: a kernel
/// that keeps several things there divides it itself.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char barge_dynamic_shared[];
  return reinterpret_cast<T*>(barge_dynamic_shared);
#else
  return static_cast<T*>(cuda_emulation::dynamic_shared());
#endif
}

}  // namespace barge::cuda
