// Sums over the threads of a block, in an order that depends on nothing but the block's size.
#pragma once

#include <cuda_runtime.h>

namespace barge::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// Every lane gets the same bits: at each step both partners add the same two numbers.
template <typename T>
__device__ inline T warp_sum(T x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

/// Every thread of the block gets the sum. The block is whole warps in one dimension; `shared` [32]
/// must not be in use: a second sum needs another one, or a barrier in between.
template <typename T>
__device__ inline T block_sum(T x, T* shared) {
  x = warp_sum(x);
  if (blockDim.x == kWarp) return x;  // no barrier for narrow rows
  const int lane = threadIdx.x % kWarp;
  if (lane == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warp_sum(lane < static_cast<int>(blockDim.x) / kWarp ? shared[lane] : T{});
}

}  // namespace barge::cuda
