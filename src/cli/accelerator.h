#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "cli/options.h"
#include "kernels/backend.h"

namespace barge {

class CudaPlugin;

/// Which device computes, as --device and --emulate-link want it.
class Accelerator {
 public:
  /// `auto` takes a GPU where there is one that barge can use, and says in the log what it took and
  /// why. Throws ConfigError where `cuda` is asked for and can't be had.
  explicit Accelerator(const Options& options);

  /// A device of its own: the memory that budgets.device says, three streams.
  std::unique_ptr<Backend> make_backend(Budgets& budgets) const;
  /// The CPU that would attend beside a GPU. Null where it is the device itself, behind a link or
  /// not: it would be in its own way.
  std::unique_ptr<Backend> make_attending_backend(Budgets& budgets) const;
  /// What a job's bytes depend on: "cpu", or the kind of GPU.
  const std::string& kind() const { return kind_; }
  /// Versions of driver and libraries, on which speed hangs: "oneDNN 2.6.3, CUDA 13.0,
  /// driver 13.0".
  const std::string& software() const { return software_; }
  /// Device memory that is free; 0: it has none of its own.
  std::size_t free_bytes() const { return free_bytes_; }
  /// The part of it that is taken unless --gpu-memory says otherwise.
  double usual_share() const { return cuda_ != nullptr ? 0.9 : 0.5; }
  bool cuda() const { return cuda_ != nullptr; }
  int threads() const { return cpu_.threads; }  // as --threads says

 private:
  CpuDevice::Options cpu_;
  CudaPlugin* cuda_ = nullptr;  // null: the CPU computes
  std::string kind_ = "cpu", software_;
  std::size_t free_bytes_ = 0;
};

}  // namespace barge
