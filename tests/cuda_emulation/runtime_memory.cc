#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "calls.h"
#include "emulation.h"
#include "executor.h"
#include "handles.h"
#include "memory.h"

using namespace cuda_emulation;
using Place = Memory::Place;

cudaError_t cuda_emulation::allocate_device(void** pointer, std::size_t bytes) {
  if (const auto error = refuse(Call::kMalloc)) return *error;
  return remember(Memory::get().allocate(pointer, bytes));
}

cudaError_t cuda_emulation::allocate_host(void** pointer, std::size_t bytes) {
  if (const auto error = refuse(Call::kHostAlloc)) return *error;
  return remember(Memory::get().allocate_host(pointer, bytes));
}

// Freeing waits for all work, as CUDA's does: nothing may use the memory afterwards.
cudaError_t cudaFree(void* device_pointer) {
  if (const auto error = refuse(Call::kFree)) return *error;
  Executor::get().wait_for_all();
  return remember(Memory::get().free(device_pointer));
}
cudaError_t cudaFreeHost(void* pointer) {
  if (const auto error = refuse(Call::kHostFree)) return *error;
  Executor::get().wait_for_all();
  return remember(Memory::get().free_host(pointer));
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  if (const auto error = refuse(Call::kHostRegister)) return *error;
  return remember(
      Memory::get().register_host(pointer, bytes, (flags & cudaHostRegisterMapped) != 0));
}
cudaError_t cudaHostGetDevicePointer(void** there, void* pointer, unsigned) {
  if (const auto error = refuse()) return *error;
  return remember(Memory::get().device_pointer(there, pointer));
}
cudaError_t cudaHostUnregister(void* pointer) {
  if (const auto error = refuse(Call::kHostUnregister)) return *error;
  Executor::get().wait_for_all();
  return remember(Memory::get().unregister_host(pointer));
}

namespace {

struct Copy {
  void* to;
  const void* from;
  std::size_t to_pitch, from_pitch, width, height;

  void operator()() const {
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                  static_cast<const std::byte*>(from) + row * from_pitch, width);
  }
  std::size_t to_bytes() const { return (height - 1) * to_pitch + width; }
  std::size_t from_bytes() const { return (height - 1) * from_pitch + width; }
};

std::string describe(const char* what, const void* at, std::size_t bytes) {
  std::ostringstream text;
  text << what << ' ' << bytes << " bytes at " << at
       << ", which aren't in one living piece of device or pinned memory";
  return text.str();
}

bool fits(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::kDevice, from_device = from == Place::kDevice;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

cudaError_t copy_async(Copy copy, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const auto error = refuse(Call::kCopy)) return *error;
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  const Place to = Memory::get().place(copy.to, copy.to_bytes());
  const Place from = Memory::get().place(copy.from, copy.from_bytes());
  if (from == Place::kInvalid)
    return remember(cudaErrorInvalidValue, describe("a copy of", copy.from, copy.from_bytes()));
  if (to == Place::kInvalid)
    return remember(cudaErrorInvalidValue, describe("a copy to", copy.to, copy.to_bytes()));
  if (!fits(kind, to, from)) return remember(cudaErrorInvalidMemcpyDirection);
  if (to != Place::kPageable && from != Place::kPageable) {
    Executor::get().give(state_of(stream), {.run = copy, .can_fail = true});
    return cudaSuccess;
  }

  if (const auto error = refuse(Call::kPageableCopy)) return *error;
  if (from == Place::kPageable && to == Place::kDevice) {  // staged before the call returns
    auto staged = std::make_shared<std::vector<std::byte>>(copy.from_bytes());
    std::memcpy(staged->data(), copy.from, staged->size());
    copy.from = staged->data();
    Executor::get().give(state_of(stream), {.run = [copy, staged] { copy(); }, .can_fail = true});
    return cudaSuccess;
  }
  Executor::get().wait(Executor::get().give(state_of(stream), {.run = copy, .can_fail = true}));
  return remember(Executor::get().failure());
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_async({to, from, 0, 0, bytes, 1}, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return remember(cudaErrorInvalidValue);
  return copy_async({to, from, to_pitch, from_pitch, width, height}, kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const auto error = refuse(Call::kBlockingCopy)) return *error;
  if (const auto error = cudaMemcpyAsync(to, from, bytes, kind, nullptr); error != cudaSuccess)
    return error;
  Executor::get().wait(Executor::get().end_of(nullptr));
  return remember(Executor::get().failure());
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (const auto error = refuse(Call::kMemset)) return *error;
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  const Place place = Memory::get().place(pointer, bytes);
  if (place != Place::kDevice && place != Place::kPinned) return remember(cudaErrorInvalidValue);
  Executor::get().give(state_of(stream),
                       {.run = [=] { std::memset(pointer, value, bytes); }, .can_fail = true});
  return cudaSuccess;
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  if (const auto error = refuse(Call::kBlockingCopy)) return *error;
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}
