#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "core/device.h"
#include "kernels/cuda/event_pool.h"

namespace barge::cuda {

/// Small arrays on their way to kernels: from a pinned ring to one of the device, in the order of
/// one stream. A place is used again once the stream has passed the kernels that read it; where
/// none is left, the caller waits for the oldest. One thread.
class UploadRing {
 public:
  /// `there` is the device's ring. Pins as much host memory (tag "uploads").
  UploadRing(Device& device, EventPool& events, std::span<std::byte> there);

  /// The device address at which kernels launched on `stream` from now until the next upload find
  /// `bytes`: a call's arrays come as one piece. A piece equal to the last one isn't copied again.
  /// Throws ConfigError for a piece that is larger than the ring.
  const std::byte* upload(cudaStream_t stream, std::span<const std::byte> bytes);

 private:
  struct Used {
    std::size_t end;  // bytes put before, of all time
    EventPool::Loan passed;
  };

  void make_room(std::size_t bytes);

  EventPool& events_;
  const std::span<std::byte> there_;
  const Buffer here_;
  // Bytes of all time, so that their difference says what is in use and the remainder where.
  std::size_t put_ = 0, fenced_ = 0, freed_ = 0;
  std::span<const std::byte> last_;  // in here_
  std::deque<Used> used_;
};

}  // namespace barge::cuda
