#include "cli/accelerator.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/log.h"
#include "core/memory_budget.h"
#include "engine/host_attention.h"
#include "kernels/cuda_plugin.h"
#include "kernels/kernels.h"

namespace barge {

Accelerator::Accelerator(const Options& o)
    : cpu_{.threads = o.threads, .emulate_link = o.emulate_link * 1e9}, software_(cpu_library()) {
  if (o.device == "cuda" && o.emulate_link > 0)
    throw ConfigError("--emulate-link makes a device of the CPU; it doesn't go with --device cuda");
  if (o.emulate_link > 0) free_bytes_ = usable_host_memory() / 2;  // as if it were behind the link
  if (o.device == "cpu" || o.emulate_link > 0) return;
  try {
    CudaPlugin& plugin = load_cuda_plugin();
    const GpuInfo gpu = plugin.gpu();
    cuda_ = &plugin;
    kind_ = concat("cuda ", gpu.name, " (compute capability ", gpu.major, ".", gpu.minor, ")");
    software_ += concat(", CUDA ", gpu.runtime, ", driver ", gpu.driver);
    free_bytes_ = gpu.free_bytes;
    log::info(concat("computing on ", gpu.name, ", ", format_bytes(gpu.free_bytes), " of ",
                     format_bytes(gpu.total_bytes), " free, CUDA ", gpu.runtime,
                     " on a driver for ", gpu.driver));
  } catch (const ConfigError& e) {
    if (o.device == "cuda") throw ConfigError(concat("--device cuda: ", e.what()));
    log::info(concat("computing on the CPU: ", e.what()));
  }
}

std::unique_ptr<Backend> Accelerator::make_backend(Budgets& budgets) const {
  return cuda_ != nullptr ? cuda_->make_backend(budgets) : make_cpu_backend(cpu_, budgets);
}

std::unique_ptr<Backend> Accelerator::make_attending_backend(Budgets& budgets) const {
  if (cuda_ == nullptr) return nullptr;
  return make_cpu_backend({.threads = HostAttention::threads(cpu_.threads)}, budgets);
}

}  // namespace barge
