#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/device.h"
#include "kernels/backend.h"
#include "offload/disk.h"
#include "policy/profile.h"

namespace barge {

struct ProbeOptions {
  std::filesystem::path disk_directory;  // whose disk is measured; takes 256 MiB of it for a while
  std::size_t device_bytes = 0;          // of device memory that a run may use
  double seconds = 10;                   // about how long all of it may take
  DType compute = DType::kF32;
  int activation_bits = 16;  // as KernelLimits'
  Backend* attention = nullptr;  // the CPU that would attend beside the device; null: not measured
};

/// Measures this machine with barge's own kernels, queue and copies. Takes some 50 MiB of host
/// memory, freed at the end. `progress(share done, what)`.
Profile probe(Backend& backend, Disk& disk, const ProbeOptions& options,
              const std::function<void(double, const std::string&)>& progress = {});

/// What a profile holds for: processor, threads, device, number formats, directory and file system.
std::string machine_of(const Device& device, const ProbeOptions& options);

/// The profile in `cache_directory` that was made for this machine; nullopt if there is none.
std::optional<Profile> load_profile(const std::filesystem::path& cache_directory,
                                    const std::string& machine);
/// Written under a temporary name and renamed.
void save_profile(const std::filesystem::path& cache_directory, const Profile& profile);

}  // namespace barge
