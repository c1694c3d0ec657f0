#include <cstdio>
#include <cstdlib>
#include <string>

#include "calls.h"
#include "emulation.h"
#include "executor.h"
#include "memory.h"

namespace cuda_emulation {
namespace {

std::size_t number_from_environment(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

DeviceModel model_from_environment() {
  DeviceModel model;
  const auto arch = static_cast<int>(number_from_environment("BARGE_EMULATION_ARCH", 86));
  model.major = arch / 10;
  model.minor = arch % 10;
  model.total_bytes = number_from_environment("BARGE_EMULATION_MEMORY", model.total_bytes);
  return model;
}

}  // namespace

DeviceModel& device_model() {
  static auto* model = new DeviceModel(model_from_environment());
  return *model;
}

/// Bytes of shared memory that a block can have when it asks.
int shared_bytes_at_most() {
  switch (device_model().major * 10 + device_model().minor) {
    case 75:
      return 64 << 10;
    case 80:
    case 87:
      return 163 << 10;
    case 90:
      return 227 << 10;
    default:
      return 99 << 10;
  }
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError:
      return "cudaErrorInitializationError";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidHostPointer:
      return "cudaErrorInvalidHostPointer";
    case cudaErrorInvalidDevicePointer:
      return "cudaErrorInvalidDevicePointer";
    case cudaErrorInvalidMemcpyDirection:
      return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorECCUncorrectable:
      return "cudaErrorECCUncorrectable";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchOutOfResources:
      return "cudaErrorLaunchOutOfResources";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "cudaErrorHostMemoryAlreadyRegistered";
    case cudaErrorHostMemoryNotRegistered:
      return "cudaErrorHostMemoryNotRegistered";
    case cudaErrorMisalignedAddress:
      return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotPermitted:
      return "cudaErrorNotPermitted";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorUnknown:
      break;
  }
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : last_reason();
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = device_model().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (device_model().driver_version < CUDART_VERSION) return remember(cudaErrorInsufficientDriver);
  *count = device_model().count;
  return *count == 0 ? remember(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return refuse().value_or(cudaSuccess);
}
cudaError_t cudaSetDevice(int device) {
  if (const auto error = refuse()) return *error;
  return device == 0 ? cudaSuccess : remember(cudaErrorInvalidDevice);
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
cudaError_t cudaSetDeviceFlags(unsigned) { return refuse().value_or(cudaSuccess); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const auto error = cudaSetDevice(device); error != cudaSuccess) return error;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated GPU");
  properties->totalGlobalMem = device_model().total_bytes;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = static_cast<std::size_t>(shared_bytes_at_most());
  properties->sharedMemPerMultiprocessor = properties->sharedMemPerBlockOptin + 1024;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = properties->maxThreadsPerMultiProcessor = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = device_model().major;
  properties->minor = device_model().minor;
  properties->multiProcessorCount = 3;
  properties->canMapHostMemory = properties->concurrentKernels = 1;
  properties->asyncEngineCount = 2;
  properties->unifiedAddressing = properties->hostRegisterSupported = 1;
  properties->memoryBusWidth = 256;
  properties->l2CacheSize = 4 << 20;
  properties->streamPrioritiesSupported = 1;
  properties->maxBlocksPerMultiProcessor = 16;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const auto error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrClockRate:
      *value = 1'500'000;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrIntegrated:
      *value = 0;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = 7'000'000;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = properties.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 1024;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = properties.asyncEngineCount;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = shared_bytes_at_most() + 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = shared_bytes_at_most();
      break;
    case cudaDevAttrHostRegisterSupported:
      *value = 1;
      break;
    default:
      return remember(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (const auto error = refuse()) return *error;
  *total_bytes = device_model().total_bytes;
  *free_bytes = *total_bytes - Memory::get().allocated_bytes();
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const auto error = refuse(Call::kDeviceSynchronize)) return *error;
  Executor::get().wait_for_all();
  return remember(Executor::get().failure());
}
cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const auto error = refuse()) return *error;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
