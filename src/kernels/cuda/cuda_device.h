#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "core/device.h"
#include "kernels/cuda/arena.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/event_pool.h"
#include "kernels/cuda/mapped_memory.h"

namespace barge::cuda {

/// The first GPU. All device memory is taken at once, as much as the budget says, and lent in
/// pieces; host memory is pinned when it is allocated. Work fails with DeviceError.
class CudaDevice final : public Device {
 public:
  /// Throws OutOfMemory, saying what is free, if the GPU hasn't as much as budgets.device, and
  /// DeviceError. `budgets` must outlive the device.
  explicit CudaDevice(Budgets& budgets);
  ~CudaDevice() override;

  std::string name() const override;
  bool unified() const override { return false; }
  Buffer allocate(Tier tier, std::size_t bytes, std::string_view tag) override;
  CudaStream& compute() override { return compute_; }
  CudaStream& load() override { return load_; }
  CudaStream& store() override { return store_; }
  const Clock& clock() const override { return clock_; }
  LinkTraffic link_traffic() const override;
  double compute_seconds() const override;

  /// Events made so far: as many as were ever held at once.
  std::size_t events_made() const { return events_.made() + timing_.made(); }
  EventPool& events() { return events_; }

 private:
  // Device memory of CUDA, owned.
  struct Memory {
    explicit Memory(std::size_t bytes);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    std::byte* data = nullptr;  // a multiple of 4096
    std::size_t bytes = 0;      // from there

   private:
    void* allocated_ = nullptr;
  };

  Buffer allocate_device(std::size_t bytes, std::string_view tag);
  Buffer allocate_host(std::size_t bytes, std::string_view tag);

  Budgets& budgets_;
  SteadyClock clock_;
  const Memory memory_;
  std::mutex arena_mutex_;  // guards arena_
  Arena arena_;
  MappedMemory mapped_;  // all that is pinned, where the GPU allows
  EventPool events_, timing_;
  // Destroyed in the reverse order: the work of a later one may be waited for by none of the
  // earlier ones' threads for longer than until it is submitted.
  mutable CudaStream compute_, load_, store_;
};

}  // namespace barge::cuda
