#include "kernels/cuda/cuda_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "core/bytes.h"
#include "core/errors.h"
#include "core/pages.h"
#include "kernels/cuda/check.h"

namespace barge::cuda {
namespace {

// Events of work in flight: a few for each run of panels in the ring, lease and copy of a sweep.
constexpr std::size_t kEvents = 1024;

std::byte* pin_pages(std::size_t bytes, std::string_view tag) {
  std::byte* data = map_pages(bytes, tag);
  // Fewer pages to be pinned one by one: a hint, and all of them become resident anyway.
  madvise(data, bytes, MADV_HUGEPAGE);
  const cudaError_t result =
      cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (result == cudaSuccess) return data;
  unmap_pages(data, bytes);
  if (result != cudaErrorMemoryAllocation) check(result, "cudaHostRegister");
  throw OutOfMemory(concat("the driver refused to pin ", format_bytes(bytes),
                           " of host memory for ", tag, ": ", cudaGetErrorString(result),
                           "; choose a smaller --cpu-memory"));
}

void unpin_pages(std::byte* data, std::size_t bytes) noexcept {
  cudaHostUnregister(data);
  unmap_pages(data, bytes);
}

}  // namespace

CudaDevice::Memory::Memory(std::size_t wanted) {
  if (wanted == 0) return;
  const cudaError_t result = cudaMalloc(&allocated_, wanted);
  if (result == cudaErrorMemoryAllocation) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw OutOfMemory(concat("the GPU refused ", format_bytes(wanted),
                             " of memory: ", format_bytes(free), " of ", format_bytes(total),
                             " are free; choose a smaller --gpu-memory, or stop what else runs "
                             "there"));
  }
  check(result, "cudaMalloc");
  // CUDA promises 256 bytes only; large pieces do come as whole pages.
  const auto address = reinterpret_cast<std::uintptr_t>(allocated_);
  const std::size_t skipped = std::min(round_up(address, kSectorBytes) - address, wanted);
  data = static_cast<std::byte*>(allocated_) + skipped;
  bytes = (wanted - skipped) / kSectorBytes * kSectorBytes;
}

CudaDevice::Memory::~Memory() { cudaFree(allocated_); }

CudaDevice::CudaDevice(Budgets& budgets)
    : budgets_(budgets),
      memory_(budgets.device.limit()),
      arena_(memory_.bytes),
      events_(cudaEventDisableTiming | cudaEventBlockingSync, kEvents),
      timing_(cudaEventDefault, kEvents),
      compute_(events_, timing_, mapped_, StreamPriority::kLowest),
      load_(events_, timing_, mapped_, StreamPriority::kHighest),
      store_(events_, timing_, mapped_, StreamPriority::kHighest) {}

CudaDevice::~CudaDevice() = default;

std::string CudaDevice::name() const {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return concat(properties.name, ", compute capability ", properties.major, ".", properties.minor);
}

Buffer CudaDevice::allocate(Tier tier, std::size_t bytes, std::string_view tag) {
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), kSectorBytes);
  return tier == Tier::kDevice ? allocate_device(whole, tag) : allocate_host(whole, tag);
}

Buffer CudaDevice::allocate_device(std::size_t bytes, std::string_view tag) {
  auto reservation = budgets_.device.reserve(bytes, tag);
  const std::scoped_lock lock(arena_mutex_);
  const auto offset = arena_.take(bytes);
  if (!offset)
    throw OutOfMemory(concat("cannot take ", format_bytes(bytes), " of device space for ", tag,
                             ": the largest free piece has ", format_bytes(arena_.largest_free()),
                             "; raise --gpu-memory or choose a smaller policy"));
  return {memory_.data + *offset, bytes, std::move(reservation),
          [this](std::byte* data, std::size_t size) {
            const std::scoped_lock held(arena_mutex_);
            arena_.give_back(static_cast<std::size_t>(data - memory_.data), size);
          }};
}

Buffer CudaDevice::allocate_host(std::size_t bytes, std::string_view tag) {
  auto reservation = budgets_.host.reserve(bytes, tag);
  Buffer buffer(pin_pages(bytes, tag), bytes, std::move(reservation),
                [this](std::byte* data, std::size_t size) {
                  mapped_.remove(data);
                  unpin_pages(data, size);
                });
  mapped_.add(buffer.data(), bytes);
  return buffer;
}

LinkTraffic CudaDevice::link_traffic() const {
  LinkTraffic traffic;
  for (CudaStream* stream : {&compute_, &load_, &store_}) {
    const SpanMeter::Seconds seconds = stream->busy_seconds();
    traffic.down_bytes += stream->down_bytes();
    traffic.up_bytes += stream->up_bytes();
    traffic.down_seconds += seconds[static_cast<std::size_t>(SpanMeter::Kind::kDown)];
    traffic.up_seconds += seconds[static_cast<std::size_t>(SpanMeter::Kind::kUp)];
  }
  return traffic;
}

double CudaDevice::compute_seconds() const {
  return compute_.busy_seconds()[static_cast<std::size_t>(SpanMeter::Kind::kCompute)];
}

}  // namespace barge::cuda
