#pragma once

#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "emulation.h"

namespace cuda_emulation {

/// Numbers in device memory.
template <typename T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) { cudaMalloc(&data_, count * sizeof(T)); }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  Array(const Array&) = delete;
  ~Array() { cudaFree(data_); }

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

template <typename... Parameters>
cudaError_t start(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                  void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace cuda_emulation
