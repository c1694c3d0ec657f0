#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tests/cuda/fixture.h"

namespace barge::cuda {

/// A CudaDevice with its table of kernels, and the reference's on the CPU.
class CudaTableTest : public testing::Test {
 protected:
  static constexpr std::int64_t kMaxInputs = 700;

  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    device_ = std::make_unique<CudaDevice>(budgets_);
  }

  /// Whether the GPU multiplies in this type.
  static bool multiplies(DType compute) {
    cudaDeviceProp gpu{};
    check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
    return compute != DType::kBF16 || gpu.major >= 8;
  }
  static KernelLimits limits(DType compute) { return {compute, 512, kMaxInputs, 4, 64}; }
  void make(DType compute) {
    table_.reset();
    table_ = make_cuda_kernels(*device_, limits(compute));
    reference_ = make_reference_kernels(cpu_, limits(compute));
  }
  /// Waits for both tables' work; what a matrix got is in fetch()ed ones afterwards.
  void finish() {
    device_->compute().record().wait();
    cpu_.compute().record().wait();
  }

  CudaDevice& device() { return *device_; }
  Kernels& table() { return *table_; }
  Kernels& reference() { return *reference_; }

  Budgets budgets_{160_MiB, 64_MiB, 0};
  CpuDevice cpu_{{.threads = 1}, budgets_};
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Kernels> table_, reference_;
};

/// Of one number of a product, both sides multiply the same numbers exactly, but the GPU adds in
/// f32, each addition off by 2^-24 of a partial sum, at most sum |x||w|. Besides, a weight may be
/// rounded to the compute type the other way where its decoding is off by 2^-24: |x||w| < 16.
inline float product_error(std::int64_t inputs, DType compute) {
  const auto n = static_cast<float>(inputs);
  const float largest_sum = 1.3f * std::sqrt(2.0f) * n;
  return std::min(n * 0x1p-24f * largest_sum, 1e-3f) + 1e-5f +
         (compute == DType::kF32 ? 0 : 2 * rounding_of(compute) * 16);
}

/// Panels in device memory, each at a multiple of `spacing` behind the one before.
class DevicePanels {
 public:
  explicit DevicePanels(std::span<const WeightPanel> panels, std::size_t spacing = 64)
      : there_(packed(panels, spacing)) {
    std::size_t at = 0;
    for (const WeightPanel& panel : panels) {
      panels_.push_back({there_.data() + at, panel.layout});
      at += round_up(panel.layout.bytes, spacing);
    }
  }

  std::span<const WeightPanel> panels() const { return panels_; }

 private:
  static std::vector<std::byte> packed(std::span<const WeightPanel> panels, std::size_t spacing) {
    std::vector<std::byte> all;
    for (const WeightPanel& panel : panels) {
      all.insert(all.end(), panel.data, panel.data + panel.layout.bytes);
      all.resize(round_up(all.size(), spacing));
    }
    return all;
  }

  OnDevice<std::byte> there_;
  std::vector<WeightPanel> panels_;
};

}  // namespace barge::cuda
