#pragma once

#include <filesystem>
#include <memory>

#include "cli/accelerator.h"
#include "cli/options.h"
#include "core/trace.h"
#include "offload/disk_queue.h"
#include "policy/placement.h"
#include "policy/profile.h"

namespace barge {

/// The machine as the flags want it seen: budgets, device, disk. Everything else is built on it.
struct Machine {
  explicit Machine(const Options& options);

  std::filesystem::path cache_directory, disk_directory;
  Accelerator accelerator;
  Budgets budgets;
  std::unique_ptr<Trace> trace;  // null unless --trace is given; of backend and disk
  std::unique_ptr<Backend> backend;
  DType compute;
  int activation_bits;  // as KernelLimits'
  DiskQueue disk;

  Device& device() const { return backend->device(); }

  /// Measured once and kept; a first run, or one of which something has changed since, makes a
  /// quick one (10 s at most) and says so.
  Profile profile(bool quick = true, bool renew = false);
  TierLimits limits() const;
};

/// --cache-dir, or the user's.
std::filesystem::path cache_directory_of(const Options& options);

}  // namespace barge
