#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "cuda_runtime_api.h"
#include "executor.h"

/// What the runtime's handles point to.
struct CUstream_st {
  std::shared_ptr<cuda_emulation::StreamState> state;
};

struct CUevent_st {
  using Time = std::chrono::steady_clock::time_point;

  bool timed = true;
  std::mutex mutex;             // guards the rest
  cuda_emulation::Ticket last;  // what was recorded last
  std::shared_ptr<Time> time;   // when that was reached
};

namespace cuda_emulation {

/// False for a handle that was destroyed or never created.
bool is_stream(cudaStream_t stream);
inline std::shared_ptr<StreamState> state_of(cudaStream_t stream) {
  return stream == nullptr ? Executor::get().null_stream() : stream->state;
}

}  // namespace cuda_emulation
