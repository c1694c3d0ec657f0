// What libbarge_cuda.so shows.
#include <cstring>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda_plugin.h"

namespace barge::cuda {
namespace {

class Plugin final : public CudaPlugin {
 public:
  GpuInfo gpu() override { return find_gpu(); }
  std::unique_ptr<Backend> make_backend(Budgets& budgets) override {
    return make_cuda_backend(budgets);
  }
};

}  // namespace
}  // namespace barge::cuda

extern "C" [[gnu::visibility("default")]] barge::CudaPlugin* barge_cuda_plugin(
    const char* version) {
  static barge::cuda::Plugin plugin;
  return std::strcmp(version, barge::kCudaPluginVersion) == 0 ? &plugin : nullptr;
}
