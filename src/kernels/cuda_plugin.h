#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/memory_budget.h"
#include "kernels/backend.h"

namespace barge {

/// A GPU as its driver describes it.
struct GpuInfo {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::size_t total_bytes = 0, free_bytes = 0;
  std::string driver, runtime;  // versions of CUDA, such as "13.0"
};

/// The library that holds all of CUDA (libbarge_cuda.so). It is loaded when asked for, so that the
/// program starts on machines without a driver or CUDA's libraries. Never unloaded.
class CudaPlugin {
 public:
  virtual ~CudaPlugin() = default;

  /// The first GPU. Throws ConfigError where there is no driver, no GPU or too old a one, saying
  /// what was wanted and found.
  virtual GpuInfo gpu() = 0;
  /// Its own bytes of device memory beside what it is asked to allocate (the context) come out of
  /// free_bytes before the call. The arena of device memory is as large as budgets.device says.
  virtual std::unique_ptr<Backend> make_backend(Budgets& budgets) = 0;
};

/// Looks for the library beside the program and in ../lib, or where BARGE_CUDA_PLUGIN says.
/// Throws ConfigError, saying what was looked for and what the loader said.
CudaPlugin& load_cuda_plugin();

/// Of what program and library share (Device, Kernels, Backend, this header): raised with each
/// change of it.
inline constexpr const char* kCudaPluginVersion = "1";

/// What the library exports under the name `barge_cuda_plugin`. Throws nothing; null if it was
/// built for another version than `version`.
using CudaPluginEntry = CudaPlugin* (*)(const char* version);

}  // namespace barge
