#include "engine/kernel_table.h"

#include "core/cpu_device.h"
#include "core/errors.h"

namespace barge {
namespace {

CpuDevice& as_cpu(Device& device) {
  auto* cpu = dynamic_cast<CpuDevice*>(&device);
  if (cpu == nullptr)
    throw ConfigError(concat("there are no kernels for the device ", device.name()));
  return *cpu;
}

}  // namespace

std::unique_ptr<Kernels> make_kernels(Device& device, const KernelLimits& limits, bool reference) {
  return reference ? make_reference_kernels(device, limits)
                   : make_cpu_kernels(as_cpu(device), limits);
}

std::size_t workspace_bytes(Device& device, const KernelLimits& limits, bool reference) {
  return reference ? 0 : cpu_workspace_bytes(limits, as_cpu(device).pool().threads());
}

}  // namespace barge
