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
  int activation_bits = 16;      // as KernelLimits'
  std::string software = {};     // versions of driver and libraries
  int threads = 0;               // that the user allows; 0: all
  Backend* attention = nullptr;  // the CPU that would attend beside the device; null: not measured
};

/// Measures this machine with barge's own kernels, queue and copies. Takes some 50 MiB of host
/// memory, freed at the end. `progress(share done, what)`.
Profile probe(Backend& backend, Disk& disk, const ProbeOptions& options,
              const std::function<void(double, const std::string&)>& progress = {});

/// What a profile holds for, one thing after the other ("; " between them): processor, threads,
/// device, number formats, software, directory, its disk and file system, the version of profiles.
std::string machine_of(const Device& device, const ProbeOptions& options);

/// The profile in `cache_directory` that was made for this machine; nullopt if there is none.
std::optional<Profile> load_profile(const std::filesystem::path& cache_directory,
                                    const std::string& machine);
/// Why the newest profile there doesn't hold for `machine`: the things that differ, as they were
/// and as they are. Empty where there is none.
std::string why_stale(const std::filesystem::path& cache_directory, const std::string& machine);
/// Written under a temporary name and renamed.
void save_profile(const std::filesystem::path& cache_directory, const Profile& profile);

}  // namespace barge
