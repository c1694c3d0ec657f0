#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <memory>
#include <span>
#include <vector>

#include "core/errors.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/operations.h"
#include "tests/kernels/fixture.h"

namespace barge::cuda {

/// A copy of host memory on the device, freed with it. Beside it lie bytes that nothing may write,
/// whose change the destructor reports.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(std::span<const T> from) : count_(from.size()) {
    check(cudaMalloc(reinterpret_cast<void**>(&base_), bytes() + 2 * kGuardBytes), "cudaMalloc");
    check(cudaMemset(base_, kGuard, bytes() + 2 * kGuardBytes), "cudaMemset");
    copy(data(), from.data());
  }
  explicit OnDevice(const std::vector<T>& from) : OnDevice(std::span<const T>(from)) {}
  OnDevice(const OnDevice&) = delete;
  ~OnDevice() {
    std::vector<std::uint8_t> all(bytes() + 2 * kGuardBytes);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDefault), cudaSuccess);
    for (std::size_t i = 0; i < kGuardBytes; ++i)
      if (all[i] != kGuard || all[all.size() - 1 - i] != kGuard) {
        ADD_FAILURE() << "bytes beside " << bytes() << " bytes of device memory were written";
        break;
      }
    cudaFree(base_);
  }

  T* data() const { return reinterpret_cast<T*>(base_ + kGuardBytes); }
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> read() const {
    std::vector<T> to(count_);
    copy(to.data(), data());
    return to;
  }

 private:
  static constexpr std::size_t kGuardBytes = 256;  // keeps the alignment of what lies between
  static constexpr std::uint8_t kGuard = 0xa5;

  // Streams that don't wait for the default one neither wait for this, nor it for them.
  void copy(void* to, const void* from) const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (count_ != 0) check(cudaMemcpy(to, from, bytes(), cudaMemcpyDefault), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  const std::size_t count_;
  std::uint8_t* base_ = nullptr;
};

/// A host matrix and its copy on the device, which kernels work on.
class DeviceMatrix {
 public:
  explicit DeviceMatrix(Matrix& host)
      : host_(host.view()),
        there_(std::span<const std::byte>(
            host_.data,
            static_cast<std::size_t>(host_.rows * host_.stride) * size_of(host_.dtype))) {}

  MatrixView view() const {
    return {there_.data(), host_.dtype, host_.rows, host_.cols, host_.stride};
  }
  /// Waits for the device and brings its numbers back into the host matrix.
  void fetch() {
    const auto bytes = there_.read();
    std::copy(bytes.begin(), bytes.end(), host_.data);
  }

 private:
  MatrixView host_;
  OnDevice<std::byte> there_;
};

/// A stream of a GPU (which may be an emulated one) and the reference on the CPU.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  cudaStream_t stream() const { return stream_; }
  void finish() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  /// The plain kernels; products round to `compute`. What they were given is done once
  /// finish_reference() returns.
  Kernels& reference(DType compute = DType::kF32) {
    auto& kernels = references_[compute == DType::kF32 ? 0 : compute == DType::kF16 ? 1 : 2];
    if (!kernels) kernels = make_reference_kernels(cpu_, {compute});
    return *kernels;
  }
  void finish_reference() { cpu_.compute().record().wait(); }

 private:
  Budgets budgets_{1_GiB, 1_GiB, 0};
  CpuDevice cpu_{{.threads = 1}, budgets_};
  std::unique_ptr<Kernels> references_[3];
  cudaStream_t stream_ = nullptr;
};

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

/// |got - want| <= error * max(1, |want|), plus the rounding of both to the type.
inline void expect_close(const Matrix& got, const Matrix& want, std::int64_t rows,
                         std::int64_t cols, DType type, float error) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      ASSERT_NEAR(got.at(r, c), want.at(r, c),
                  (error + 2 * rounding_of(type)) * std::max(1.0f, std::fabs(want.at(r, c))))
          << "at " << r << ", " << c << " of " << rows << " x " << cols << " in " << name_of(type);
}

}  // namespace barge::cuda
