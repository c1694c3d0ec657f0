#include "kernels/cuda_plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <system_error>

#include "core/errors.h"

namespace barge {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libbarge_cuda.so";
constexpr const char* kOverride = "BARGE_CUDA_PLUGIN";
constexpr const char* kEntry = "barge_cuda_plugin";

fs::path find_library() {
  if (const char* chosen = std::getenv(kOverride); chosen != nullptr && *chosen != '\0')
    return chosen;
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path candidates[]{beside / kLibrary, beside.parent_path() / "lib" / kLibrary};
  for (const fs::path& candidate : candidates)
    if (std::error_code ignored; fs::exists(candidate, ignored)) return candidate;
  throw ConfigError(concat("barge's GPU part is not installed: neither ", candidates[0].string(),
                           " nor ", candidates[1].string(), " is there (", kOverride,
                           " may name it); build with BARGE_CUDA=ON to have it"));
}

CudaPlugin& open_plugin() {
  const fs::path path = find_library();
  // Kept for ever: CUDA's own threads and exit handlers are in there.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    throw ConfigError(concat("cannot load barge's GPU part, ", path.string(), ": ",
                             why == nullptr ? "no reason given" : why,
                             " (it needs CUDA's cuBLASLt)"));
  }
  const auto entry = reinterpret_cast<CudaPluginEntry>(dlsym(library, kEntry));
  if (entry == nullptr)
    throw ConfigError(concat(path.string(), " is not barge's GPU part: it has no ", kEntry));
  CudaPlugin* const plugin = entry(kCudaPluginVersion);
  if (plugin == nullptr)
    throw ConfigError(
        concat(path.string(),
               " was built for another version of barge; install both from the same build"));
  return *plugin;
}

}  // namespace

CudaPlugin& load_cuda_plugin() {
  static CudaPlugin& plugin = open_plugin();
  return plugin;
}

}  // namespace barge
