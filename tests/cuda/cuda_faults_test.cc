// What only the emulation can do: make calls fail, and count those that wait.
#ifdef BARGE_CUDA_EMULATED
#include <gmock/gmock.h>

#include <vector>

#include "core/bytes.h"
#include "core/errors.h"
#include "emulation.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/fixture.h"

namespace barge::cuda {
namespace {

using cuda_emulation::Call;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CudaFaultsTest : public testing::Test {
 protected:
  ~CudaFaultsTest() override {
    cuda_emulation::reset_device();
    cuda_emulation::device_model() = {};
    cuda_emulation::make_products_depend_on_rows(false);
  }
  static void copy(CudaDevice& device, const Buffer& to, const Buffer& from) {
    device.load().copy(to.data(), Tier::kDevice, from.data(), Tier::kHost, 4096);
  }

  Budgets budgets_{96_MiB, 16_MiB, 0};
};

TEST_F(CudaFaultsTest, ARefusedCallReachesWhoeverWaits) {
  CudaDevice device(budgets_);
  const Buffer there = device.allocate(Tier::kDevice, 4096, "x");
  const Buffer here = device.allocate(Tier::kHost, 4096, "x");
  cuda_emulation::fail_call(Call::kCopy, 2, cudaErrorInvalidValue);
  copy(device, there, here);
  const Event before = device.load().record();
  copy(device, there, here);
  device.compute().wait(device.load().record());
  const Event after = device.compute().record();
  before.wait();
  EXPECT_THAT([&] { after.wait(); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("cudaMemcpyAsync (cuda_stream.cc:"),
                                               HasSubstr("cudaErrorInvalidValue"))));
}

TEST_F(CudaFaultsTest, WorkThatFailsOnTheDeviceReachesWhoeverWaits) {
  CudaDevice device(budgets_);
  const Buffer there = device.allocate(Tier::kDevice, 4096, "x");
  const Buffer here = device.allocate(Tier::kHost, 4096, "x");
  cuda_emulation::fail_work(1, cudaErrorIllegalAddress);
  copy(device, there, here);
  const Event end = device.load().record();
  EXPECT_THAT([&] { end.wait(); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("cudaEventSynchronize (cuda_event.cc:"),
                                               HasSubstr("cudaErrorIllegalAddress"))));
  EXPECT_TRUE(end.done());
  cuda_emulation::reset_device();  // or nothing could be given back
}

TEST_F(CudaFaultsTest, SaysSoWhenTheDriverWillNotPinMemory) {
  CudaDevice device(budgets_);
  cuda_emulation::fail_call(Call::kHostRegister, 1, cudaErrorMemoryAllocation);
  EXPECT_THAT(
      [&] { (void)device.allocate(Tier::kHost, 8192, "staging"); },
      ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("to pin 8.00 KiB of host memory for staging"),
                                       HasSubstr("--cpu-memory"))));
  EXPECT_EQ(budgets_.host.used(), 0u);
}

TEST_F(CudaFaultsTest, PinsHostMemoryOnceAndUnpinsItWhenFreed) {
  CudaDevice device(budgets_);
  cuda_emulation::reset_counters();
  { const Buffer here = device.allocate(Tier::kHost, 8192, "staging"); }
  EXPECT_EQ(cuda_emulation::count(Call::kHostRegister), 1u);
  EXPECT_EQ(cuda_emulation::count(Call::kHostUnregister), 1u);
  EXPECT_EQ(cuda_emulation::count(Call::kMalloc), 0u);
}

// All operations of a layer, on streams that wait for each other, without a call that waits.
TEST_F(CudaFaultsTest, ASweepNeitherWaitsNorAllocatesNorMakesEvents) {
  constexpr std::int64_t kRows = 5, kCols = 32;
  constexpr int kHeads = 2, kHeadDim = 16, kPagePositions = 16;
  CudaDevice device(budgets_);
  const auto kernels = make_cuda_kernels(device, {DType::kF16, kRows, kCols, kHeads, kHeadDim});
  const KvFormat kv{Encoding::kF16, kHeads, kHeadDim};
  const Buffer memory = device.allocate(Tier::kDevice, 1_MiB, "activations");
  const Buffer weights = device.allocate(Tier::kDevice, 8192, "ring");
  const Buffer page = device.allocate(Tier::kDevice, kPagePositions * kv.record_bytes(), "kv");
  const Buffer here = device.allocate(Tier::kHost, 8192, "staging");
  const auto matrix = [&](std::size_t i, DType type) {
    return MatrixView{memory.data() + i * 4096, type, kRows, kCols, kCols};
  };
  const auto* const vector = reinterpret_cast<const float*>(memory.data() + 64 * 4096);
  const MatrixView hidden = matrix(0, DType::kF32), x = matrix(1, DType::kF16);
  const MatrixView q = matrix(2, DType::kF32), out = matrix(3, DType::kF16);
  const WeightPanel panel{weights.data(), panel_layout({Encoding::kQ4, 32}, kCols, kCols)};
  std::byte* const pages[]{page.data()};
  const std::vector<std::int32_t> positions{0, 1, 2, 3, 4};
  const std::vector<float> frequencies(kHeadDim / 2, 0.5f);
  const AttentionSpan spans[]{{.first_row = 0, .rows = 5, .prompt = true, .pages = pages}};
  const auto sweep = [&] {
    for (int layer = 0; layer < 3; ++layer) {
      device.load().copy(weights.data(), Tier::kDevice, here.data(), Tier::kHost, 8192);
      kernels->rms_norm(hidden, vector, 1e-5f, x);
      device.compute().wait(device.load().record());
      kernels->linear(x, {&panel, 1}, vector, q, Epilogue::kStore);
      device.load().wait(device.compute().record());
      kernels->rope(q, kHeadDim, positions, frequencies);
      kernels->append_kv(kv, kPagePositions, spans, q, q);
      kernels->attend(kv, kPagePositions, spans, kHeads, 1, q, out);
      kernels->linear(out, {&panel, 1}, nullptr, hidden, Epilogue::kAdd);
      kernels->activate(Kernels::Activation::kSilu, x, {}, x);
      kernels->gather_rows(hidden, positions, q);
      device.store().wait(device.compute().record());
      device.store().copy(here.data(), Tier::kHost, page.data(), Tier::kDevice, 4096);
      device.load().wait(device.store().record());
    }
    return device.compute().record();
  };
  sweep().wait();  // which meets shapes for the first time
  for (int i = 0; i < 3; ++i) {
    cuda_emulation::reset_counters();
    const Event end = sweep();
    while (!end.done()) std::this_thread::yield();
    EXPECT_EQ(cuda_emulation::blocking_calls(), 0u);
    EXPECT_EQ(cuda_emulation::count(Call::kEventCreate), 0u);
    EXPECT_EQ(cuda_emulation::count(Call::kPageableCopy), 0u);
    EXPECT_GT(cuda_emulation::count(Call::kLaunch), 0u);
  }
}

TEST_F(CudaFaultsTest, SaysWhatTheGpuLacks) {
  auto& model = cuda_emulation::device_model();
  EXPECT_EQ(find_gpu().major, 8);
  model.major = 7;
  model.minor = 0;
  EXPECT_THAT([] { find_gpu(); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("compute capability 7.0"), HasSubstr("needs 7.5"))));
  model = {.driver_version = 12040};
  EXPECT_THAT([] { find_gpu(); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("driver is for CUDA 12.4"), HasSubstr("built with CUDA 13.0"))));
  model = {.driver_version = 0};
  EXPECT_THAT([] { find_gpu(); }, ThrowsMessage<ConfigError>(HasSubstr("no NVIDIA driver")));
  model = {.count = 0};
  EXPECT_THAT([] { find_gpu(); }, ThrowsMessage<ConfigError>(HasSubstr("no GPU")));
}

TEST_F(CudaFaultsTest, TakesTheComputeTypesThatTheGpuMultiplies) {
  const KernelLimits bf16{.compute = DType::kBF16, .max_rows = 8, .max_inputs = 8};
  {
    const auto ampere = make_cuda_backend(budgets_);
    EXPECT_EQ(ampere->preferred_compute_type(), DType::kBF16);
    (void)ampere->make_kernels(bf16);
  }
  cuda_emulation::device_model().major = 7;
  cuda_emulation::device_model().minor = 5;
  const auto turing = make_cuda_backend(budgets_);
  EXPECT_EQ(turing->preferred_compute_type(), DType::kF16);
  EXPECT_THAT([&] { (void)turing->make_kernels(bf16); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("7.5"), HasSubstr("float16"))));
}

}  // namespace
}  // namespace barge::cuda
#endif
