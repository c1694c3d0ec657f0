#include <link.h>

#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include "calls.h"
#include "cuda_runtime.h"
#include "emulation.h"
#include "executor.h"
#include "handles.h"

namespace cuda_emulation {

int shared_bytes_at_most();  // runtime_device.cc

namespace {

constexpr std::size_t kSharedBytesUnasked = 48 << 10;
// Filling more than this before each block would cost more than the block.
constexpr std::size_t kPoisonBytesCheap = 16 << 10;

BlockRunner* runner = nullptr;  // of the kernel that runs

struct Functions {
  std::mutex mutex;
  std::map<const void*, std::size_t> shared_bytes;  // that a kernel may have, where asked
};
Functions& functions() {
  static auto* functions = new Functions;
  return *functions;
}
std::size_t shared_bytes_allowed(const void* kernel) {
  std::lock_guard lock(functions().mutex);
  const auto found = functions().shared_bytes.find(kernel);
  return found == functions().shared_bytes.end() ? kSharedBytesUnasked : found->second;
}

/// The calling thread's copy of all thread-local variables of the library that `code` is in:
/// shared memory (cuda_runtime.h), for no other code of that library runs on the device's thread.
struct SharedMemory {
  const void* code;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
int find_shared_memory(dl_phdr_info* info, std::size_t, void* data) {
  auto& wanted = *static_cast<SharedMemory*>(data);
  const auto code = reinterpret_cast<std::uintptr_t>(wanted.code);
  bool here = false;
  std::size_t bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const auto first = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && first <= code && code < first + header.p_memsz) here = true;
    if (header.p_type == PT_TLS) bytes = header.p_memsz;
  }
  if (!here) return 0;
  wanted.data = static_cast<std::byte*>(info->dlpi_tls_data);
  wanted.bytes = wanted.data == nullptr ? 0 : bytes;
  return 1;
}

void run_grid(const cudaLaunchConfig_t& config, const void* kernel,
              const std::function<void()>& thread) {
  Executor& executor = Executor::get();
  runner = &executor.blocks();
  SharedMemory shared{kernel};
  dl_iterate_phdr(find_shared_memory, &shared);
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  std::vector<std::uint32_t> blocks(std::size_t{gridDim.x} * gridDim.y * gridDim.z);
  std::iota(blocks.begin(), blocks.end(), 0u);
  executor.random().shuffle(std::span(blocks));
  bool poison = true;
  for (const std::uint32_t block : blocks) {
    if (poison) std::memset(shared.data, 0xff, shared.bytes);
    poison = shared.bytes < kPoisonBytesCheap || executor.random().below(4) == 0;
    blockIdx = {block % gridDim.x, block / gridDim.x % gridDim.y, block / gridDim.x / gridDim.y};
    executor.blocks().run(thread, config.dynamicSmemBytes);
  }
}

bool is_size(const dim3& size, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  return 0 < size.x && size.x <= x && 0 < size.y && size.y <= y && 0 < size.z && size.z <= z;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread) {
  if (const auto error = refuse(Call::kLaunch)) return *error;
  if (!is_stream(config.stream)) return remember(cudaErrorInvalidResourceHandle);
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  if (!is_size(grid, 0x7fffffff, 65535, 65535) || !is_size(block, 1024, 1024, 64) ||
      std::uint64_t{block.x} * block.y * block.z > 1024 || config.numAttrs != 0)
    return remember(cudaErrorInvalidConfiguration);
  if (config.dynamicSmemBytes > shared_bytes_allowed(kernel))
    return remember(cudaErrorInvalidValue);
  Executor::get().give(
      state_of(config.stream),
      {.run = [=, thread = std::move(thread)] { run_grid(config, kernel, thread); },
       .can_fail = true});
  return cudaSuccess;
}

cudaError_t set_function_attribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (const auto error = refuse()) return *error;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > shared_bytes_at_most()) return remember(cudaErrorInvalidValue);
  std::lock_guard lock(functions().mutex);
  functions().shared_bytes[function] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t function_attributes(cudaFuncAttributes* attributes, const void* function) {
  if (const auto error = refuse()) return *error;
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = device_model().major * 10 + device_model().minor;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(shared_bytes_allowed(function));
  return cudaSuccess;
}

std::uint64_t meet_lanes(const char* what, Combine combine, std::uint32_t mask, std::uint64_t value,
                         int argument, const Where& where) {
  return runner->meet_lanes(what, combine, mask, value, argument, where);
}
int meet_block(const char* what, bool value, const Where& where) {
  return runner->meet_block(what, value, where);
}
int lane() { return runner->lane(); }
void* dynamic_shared() { return runner->dynamic_shared(); }
void fail(const char* what, const Where& where) { runner->fail(what, where); }

}  // namespace cuda_emulation
