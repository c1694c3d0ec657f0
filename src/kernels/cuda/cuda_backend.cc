#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"

namespace barge::cuda {
namespace {

constexpr int kDevice = 0;
constexpr int kLeastMajor = 7, kLeastMinor = 5;  // tensor cores with f16, as the kernels use them
constexpr int kBf16Major = 8;                    // the first with bf16 products

std::string version(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

// Before any call that would make a context, because such a call's message says less.
void require_driver(int driver, int runtime) {
  if (driver == 0)
    throw ConfigError(concat("no NVIDIA driver was found; barge's GPU part needs one for CUDA ",
                             version(runtime), " or later"));
  if (driver / 1000 < runtime / 1000)  // within one major version, older drivers do
    throw ConfigError(concat("the NVIDIA driver is for CUDA ", version(driver),
                             ", but barge was built with CUDA ", version(runtime),
                             ": update the driver"));
}

void require_gpu() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorNoDevice || (result == cudaSuccess && count == 0))
    throw ConfigError(
        "there is an NVIDIA driver but no GPU that this process may use (see "
        "nvidia-smi and CUDA_VISIBLE_DEVICES)");
  if (result == cudaErrorInsufficientDriver)
    throw ConfigError("the NVIDIA driver is too old for this build of barge: update it");
  check(result, "cudaGetDeviceCount");
}

void require_capability(const cudaDeviceProp& gpu) {
  if (gpu.major > kLeastMajor || (gpu.major == kLeastMajor && gpu.minor >= kLeastMinor)) return;
  throw ConfigError(concat(gpu.name, " has compute capability ", gpu.major, ".", gpu.minor,
                           ", but barge needs ", kLeastMajor, ".", kLeastMinor,
                           " (Turing, 2018) or later"));
}

cudaDeviceProp properties() {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, kDevice), "cudaGetDeviceProperties");
  return gpu;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(Budgets& budgets) : gpu_(properties()), device_(budgets) {}

  Device& device() override { return device_; }

  // Both are as fast; bf16 has the range of what models are trained in.
  DType preferred_compute_type() const override {
    return gpu_.major >= kBf16Major ? DType::kBF16 : DType::kF16;
  }

  std::unique_ptr<Kernels> make_kernels(const KernelLimits& limits) override {
    if (limits.compute == DType::kBF16 && gpu_.major < kBf16Major)
      throw ConfigError(concat(gpu_.name, " (compute capability ", gpu_.major, ".", gpu_.minor,
                               ") has no bfloat16 products, which came with 8.0; --dtype takes "
                               "float16 or float32 there"));
    return make_cuda_kernels(device_, limits);
  }

  PerTier<std::size_t> workspace_bytes(const KernelLimits& limits) override {
    return cuda_workspace_bytes(limits);
  }

 private:
  const cudaDeviceProp gpu_;
  CudaDevice device_;
};

}  // namespace

GpuInfo find_gpu() {
  GpuInfo info;
  int driver = 0, runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");  // 0 without a driver
  require_driver(driver, runtime);
  require_gpu();
  const cudaDeviceProp gpu = properties();
  require_capability(gpu);
  check(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "cudaMemGetInfo");
  info.name = gpu.name;
  info.major = gpu.major;
  info.minor = gpu.minor;
  info.driver = version(driver);
  info.runtime = version(runtime);
  return info;
}

std::unique_ptr<Backend> make_cuda_backend(Budgets& budgets) {
  (void)find_gpu();
  return std::make_unique<CudaBackend>(budgets);
}

}  // namespace barge::cuda
