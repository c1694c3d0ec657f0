#include "calls.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_set>

#include "executor.h"

namespace cuda_emulation {
namespace {

struct Fault {
  std::uint64_t left = 0;  // calls until it; 0: none
  cudaError_t error = cudaSuccess;
};

struct Calls {
  std::mutex mutex;
  std::array<std::uint64_t, static_cast<std::size_t>(Call::kCount)> counts{};
  std::array<Fault, static_cast<std::size_t>(Call::kCount)> faults{};
  std::unordered_set<const void*> handles;
};

Calls& calls() {
  static auto* calls = new Calls;  // used by threads that outlive main
  return *calls;
}

thread_local cudaError_t last_error = cudaSuccess;
thread_local std::string reason;

}  // namespace

std::optional<cudaError_t> refuse(Call call) {
  {
    std::lock_guard lock(calls().mutex);
    ++calls().counts[static_cast<std::size_t>(call)];
    Fault& fault = calls().faults[static_cast<std::size_t>(call)];
    if (fault.left > 0 && --fault.left == 0) return remember(fault.error);
  }
  return refuse();
}

std::optional<cudaError_t> refuse() {
  if (Executor::get().is_own_thread()) return remember(cudaErrorNotPermitted);
  if (device_model().driver_version == 0) return remember(cudaErrorInsufficientDriver);
  if (device_model().count == 0) return remember(cudaErrorNoDevice);
  const cudaError_t failure = Executor::get().failure();
  if (failure != cudaSuccess) return remember(failure);
  return std::nullopt;
}

cudaError_t remember(cudaError_t error, const std::string& why) {
  if (error == cudaSuccess) return error;
  last_error = error;
  reason = why.empty() ? "an error of the emulation" : why;
  return error;
}

const char* last_reason() { return reason.empty() ? "an error of the emulation" : reason.c_str(); }

void add_handle(const void* handle) {
  std::lock_guard lock(calls().mutex);
  calls().handles.insert(handle);
}
bool remove_handle(const void* handle) {
  std::lock_guard lock(calls().mutex);
  return calls().handles.erase(handle) != 0;
}
bool is_handle(const void* handle) {
  std::lock_guard lock(calls().mutex);
  return calls().handles.contains(handle);
}

void reset_counters() {
  std::lock_guard lock(calls().mutex);
  calls().counts.fill(0);
}

std::uint64_t count(Call call) {
  std::lock_guard lock(calls().mutex);
  return calls().counts[static_cast<std::size_t>(call)];
}

std::uint64_t blocking_calls() {
  std::uint64_t sum = 0;
  for (const Call call :
       {Call::kPageableCopy, Call::kBlockingCopy, Call::kMalloc, Call::kFree, Call::kHostAlloc,
        Call::kHostFree, Call::kHostRegister, Call::kHostUnregister, Call::kStreamSynchronize,
        Call::kEventSynchronize, Call::kDeviceSynchronize})
    sum += count(call);
  return sum;
}

void set_seed(std::uint64_t seed) { Executor::get().set_seed(seed); }

void fail_call(Call call, std::uint64_t nth, cudaError_t error) {
  std::lock_guard lock(calls().mutex);
  calls().faults[static_cast<std::size_t>(call)] = {nth, error};
}

void fail_work(std::uint64_t nth, cudaError_t error) { Executor::get().fail_work(nth, error); }

void reset_device() {
  Executor::get().reset();
  std::lock_guard lock(calls().mutex);
  calls().faults.fill({});
}

}  // namespace cuda_emulation

cudaError_t cudaGetLastError() {
  const cudaError_t error = cuda_emulation::last_error;
  cuda_emulation::last_error = cudaSuccess;
  const cudaError_t failure = cuda_emulation::Executor::get().failure();
  return failure != cudaSuccess ? failure : error;
}
cudaError_t cudaPeekAtLastError() {
  const cudaError_t failure = cuda_emulation::Executor::get().failure();
  return failure != cudaSuccess ? failure : cuda_emulation::last_error;
}
