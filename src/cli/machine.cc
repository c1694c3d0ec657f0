#include "cli/machine.h"

#include <sys/statvfs.h>

#include <cmath>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/log.h"
#include "core/progress.h"
#include "kernels/traced_backend.h"
#include "pack/cache.h"
#include "probe/probe.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

fs::path existing(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    throw IoError(concat("cannot make the directory ", directory.string(), ": ", error.message()));
  return directory;
}

std::size_t free_disk(const fs::path& directory) {
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0) return 0;
  return static_cast<std::size_t>(info.f_bavail) * info.f_frsize;
}

DType compute_type(const std::string& dtype, const Accelerator& accelerator,
                   const Backend& backend) {
  if (dtype == "float32") return DType::kF32;
  if (dtype == "bfloat16") return DType::kBF16;
  if (dtype == "auto") return backend.preferred_compute_type();
  if (!accelerator.cuda())
    throw ConfigError("--dtype float16 needs a GPU; the CPU computes in float32 or bfloat16");
  return DType::kF16;
}

int activation_bits_of(const Options& o, const Accelerator& accelerator) {
  if (accelerator.cuda() && o.activation_bits == "8")
    throw ConfigError("--activation-bits 8 is for the CPU; with a GPU it takes 16 or auto");
  if (o.activation_bits == "8") return 8;
  if (o.activation_bits == "16" || accelerator.cuda() || o.dtype != "auto") return 16;
  return preferred_activation_bits();
}

Budgets budgets_of(const Options& o, const Accelerator& accelerator,
                   const fs::path& disk_directory) {
  const std::size_t device = accelerator.free_bytes(), host = usable_host_memory(),
                    disk = free_disk(disk_directory);
  const auto sized = [](const std::string& text, const char* flag, std::size_t whole,
                        std::size_t otherwise) {
    return text.empty() ? otherwise : parse_bytes(text, flag, whole);
  };
  const auto usual =
      static_cast<std::size_t>(static_cast<double>(device) * accelerator.usual_share());
  return {device > 0 ? sized(o.gpu_memory, "--gpu-memory", device, usual) : 0,
          sized(o.cpu_memory, "--cpu-memory", host, host / 5 * 4),
          // The pack is there already, or its bytes will come out of what is free now.
          sized(o.disk_space, "--disk-space", disk, disk + (std::size_t{1} << 40))};
}

DiskQueue::Options queue_options(const Options& o, Trace* trace) {
  DiskQueue::Options options;
  options.trace = trace;
  options.io = o.io == "uring"   ? DiskQueue::Io::kUring
               : o.io == "pread" ? DiskQueue::Io::kPread
                                 : DiskQueue::Io::kAuto;
  return options;
}

std::unique_ptr<Trace> make_trace(const Options& o) {
  static const SteadyClock clock;
  return o.trace.empty() ? nullptr : std::make_unique<Trace>(clock);
}

std::unique_ptr<Backend> traced(std::unique_ptr<Backend> backend, Trace* trace) {
  return trace == nullptr ? std::move(backend) : make_traced_backend(std::move(backend), *trace);
}

}  // namespace

Machine::Machine(const Options& o)
    : cache_directory(cache_directory_of(o)),
      disk_directory(existing(o.disk_dir.empty() ? cache_directory : o.disk_dir)),
      accelerator(o),
      budgets(budgets_of(o, accelerator, disk_directory)),
      trace(make_trace(o)),
      backend(traced(accelerator.make_backend(budgets), trace.get())),
      compute(compute_type(o.dtype, accelerator, *backend)),
      activation_bits(activation_bits_of(o, accelerator)),
      disk(queue_options(o, trace.get())) {}

Profile Machine::profile(bool quick, bool renew) {
  ProbeOptions options{.disk_directory = disk_directory,
                       .device_bytes = budgets.device.limit(),
                       .seconds = quick ? 8.0 : 60.0,
                       .compute = compute,
                       .activation_bits = activation_bits,
                       .software = accelerator.software(),
                       .threads = accelerator.threads()};
  if (!renew) {
    const std::string machine = machine_of(device(), options);
    if (const auto known = load_profile(cache_directory, machine)) return *known;
    if (const std::string why = why_stale(cache_directory, machine); !why.empty()) log::info(why);
  }
  log::info(concat("measuring this machine (about ", quick ? "5 s" : "a minute",
                   "; `barge probe` does it thoroughly)"));
  // What the probe allocates is its own affair: budgets that are too small for the model still
  // have to fit it.
  Budgets own(256_MiB, 256_MiB, 1_GiB);
  const std::unique_ptr<Backend> probed = accelerator.make_backend(own);
  const std::unique_ptr<Backend> attending = accelerator.make_attending_backend(own);
  options.attention = attending.get();
  DiskQueue queue({});
  Progress progress("measuring",
                    [](double share) { return concat(std::round(share * 100), " %"); });
  const Profile measured =
      barge::probe(*probed, queue, options,
                   [&](double share, const std::string& what) { progress.update(share, 1, what); });
  save_profile(cache_directory, measured);
  return measured;
}

TierLimits Machine::limits() const {
  return {budgets.device.limit(), budgets.host.limit(), budgets.disk.limit()};
}

fs::path cache_directory_of(const Options& o) {
  return o.cache_dir.empty() ? default_cache_directory() : o.cache_dir;
}

}  // namespace barge
