#include <functional>

#include "kernels/backend.h"

namespace barge {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuDevice::Options& options, Budgets& budgets) : device_(options, budgets) {}

  Device& device() override { return device_; }
  DType preferred_compute_type() const override { return barge::preferred_compute_type(); }
  std::unique_ptr<Kernels> make_kernels(const KernelLimits& limits) override {
    return make_cpu_kernels(device_, limits);
  }
  PerTier<std::size_t> workspace_bytes(const KernelLimits& limits) override {
    return {.device = cpu_workspace_bytes(limits, device_.pool().threads())};
  }

 private:
  CpuDevice device_;
};

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend(const CpuDevice::Options& options, Budgets& budgets)
      : device_(options, budgets) {}

  Device& device() override { return device_; }
  DType preferred_compute_type() const override { return DType::kF32; }
  std::unique_ptr<Kernels> make_kernels(const KernelLimits& limits) override {
    return make_reference_kernels(device_, limits);
  }
  PerTier<std::size_t> workspace_bytes(const KernelLimits&) override { return {}; }

 private:
  CpuDevice device_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuDevice::Options& options, Budgets& budgets) {
  return std::make_unique<CpuBackend>(options, budgets);
}

std::unique_ptr<Backend> make_reference_backend(const CpuDevice::Options& options,
                                                Budgets& budgets) {
  return std::make_unique<ReferenceBackend>(options, budgets);
}

}  // namespace barge
