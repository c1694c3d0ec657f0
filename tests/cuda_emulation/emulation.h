// A GPU emulated by the CPU, for tests of code for CUDA: the .cu and .cc files are compiled by the
// ordinary C++ compiler against the headers in include/, which declare as much of CUDA as barge
// uses. One thread, the device's, takes work from the streams in any order that streams and events
// allow, as late as it may, so that code which forgets to wait reads what isn't there yet.
// Threads of a block run one at a time and in any order that their barriers allow.
//
// Environment, for programs that can't include this header:
//   BARGE_EMULATION_SEED    of all random choices (1)
//   BARGE_EMULATION_MEMORY  bytes of device memory (1 GiB)
//   BARGE_EMULATION_ARCH    compute capability, such as 75 (86)
//   BARGE_EMULATION_FAIL    the so-manieth piece of work fails (0: none), and with it the device
//   BARGE_EMULATION_PROTECT 1: device memory can't be touched while the device doesn't run, so that
//                           host code which does ends the program, as it would with a GPU; slow
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"

namespace cuda_emulation {

/// What is counted, and what can be made to fail.
enum class Call : std::uint8_t {
  kLaunch,
  kProduct,  // cublasLtMatmul
  kCopy,
  kPageableCopy,  // also counted as kCopy: of host memory that isn't registered
  kBlockingCopy,  // likewise: cudaMemcpy, cudaMemset
  kMemset,
  kHostFunction,
  kMalloc,
  kFree,
  kHostAlloc,
  kHostFree,
  kHostRegister,
  kHostUnregister,
  kStreamCreate,
  kEventCreate,
  kEventRecord,
  kStreamWait,
  kStreamSynchronize,
  kEventSynchronize,
  kDeviceSynchronize,
  kCount,
};

void reset_counters();
std::uint64_t count(Call call);
/// Calls that make the host wait for the device: kMalloc to kHostUnregister, the three
/// synchronising ones, cudaMemcpy and copies of pageable memory.
std::uint64_t blocking_calls();

/// Starts the random choices anew.
void set_seed(std::uint64_t seed);

/// The `nth` call of this kind from now on (1: the next) returns `error` and does nothing.
void fail_call(Call call, std::uint64_t nth, cudaError_t error);
/// The `nth` piece of work (kLaunch, kProduct, kCopy, kMemset) from now on fails when it is done,
/// after its call has succeeded. As in CUDA all later calls return that error: see reset_device().
void fail_work(std::uint64_t nth, cudaError_t error);
/// Forgets a failure of work and all injected ones. The streams' work must be over or failed.
void reset_device();

/// What the device says it is. Set it before the code under test asks.
struct DeviceModel {
  int count = 1;  // 0: no GPU
  int major = 8, minor = 6;
  std::size_t total_bytes = std::size_t{1} << 30;
  int driver_version = 13000;  // 0: no driver
  // Kernels find registered memory where the host does, if it is mapped. That they touch no other
  // host memory isn't checked: code for CUDA has to ask (cudaHostGetDevicePointer).
  bool host_at_own_address = true;
};
DeviceModel& device_model();

/// From now on cublasLtMatmul sums in an order that depends on the number of D's columns (barge's
/// rows), as an algorithm with split-K might.
void make_products_depend_on_rows(bool depend);

}  // namespace cuda_emulation
