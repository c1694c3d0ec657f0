#pragma once

#include <cstddef>
#include <memory>

#include "core/cpu_device.h"
#include "core/device.h"
#include "core/tier.h"
#include "kernels/kernels.h"

namespace barge {

/// A device and the kernels that are made for it: all that a scheduler needs of an accelerator.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Device& device() = 0;
  /// The number format in which it multiplies fastest.
  virtual DType preferred_compute_type() const = 0;
  /// Throws ConfigError for what the device can't multiply or the limits don't cover. The table
  /// must neither outlive the backend nor be destroyed before its work is done.
  virtual std::unique_ptr<Kernels> make_kernels(const KernelLimits& limits) = 0;
  /// Bytes that make_kernels allocates on the device (tag "workspace") and, where that is another
  /// memory, on the host.
  virtual PerTier<std::size_t> workspace_bytes(const KernelLimits& limits) = 0;
};

/// The CPU with its fast kernels.
std::unique_ptr<Backend> make_cpu_backend(const CpuDevice::Options& options, Budgets& budgets);
/// The CPU with the plain reference.
std::unique_ptr<Backend> make_reference_backend(const CpuDevice::Options& options,
                                                Budgets& budgets);

}  // namespace barge
