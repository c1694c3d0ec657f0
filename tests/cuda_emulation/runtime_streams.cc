#include "calls.h"
#include "emulation.h"
#include "executor.h"
#include "handles.h"

using namespace cuda_emulation;

bool cuda_emulation::is_stream(cudaStream_t stream) {
  return stream == nullptr || is_handle(stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const auto error = refuse(Call::kStreamCreate)) return *error;
  *stream = new CUstream_st{Executor::get().create_stream((flags & cudaStreamNonBlocking) == 0)};
  add_handle(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr || !remove_handle(stream)) return remember(cudaErrorInvalidResourceHandle);
  Executor::get().destroy_stream(stream->state);
  delete stream;
  return remember(Executor::get().failure());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto error = refuse(Call::kStreamSynchronize)) return *error;
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  Executor::get().wait(Executor::get().end_of(state_of(stream)));
  return remember(Executor::get().failure());
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const auto error = refuse()) return *error;
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  return Executor::get().reached(Executor::get().end_of(state_of(stream))) ? cudaSuccess
                                                                           : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto error = refuse(Call::kStreamWait)) return *error;
  if (!is_stream(stream) || !is_handle(event)) return remember(cudaErrorInvalidResourceHandle);
  Ticket last;
  {
    std::lock_guard lock(event->mutex);
    last = event->last;
  }
  if (last.stream) Executor::get().give(state_of(stream), {.wait_for = std::move(last)});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const auto error = refuse(Call::kEventCreate)) return *error;
  *event = new CUevent_st;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  add_handle(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags) {
  return cudaEventCreateWithFlags(event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!remove_handle(event)) return remember(cudaErrorInvalidResourceHandle);
  delete event;  // what it recorded lives on with those who wait
  return remember(Executor::get().failure());
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const auto error = refuse(Call::kEventRecord)) return *error;
  if (!is_stream(stream) || !is_handle(event)) return remember(cudaErrorInvalidResourceHandle);
  auto time = std::make_shared<CUevent_st::Time>();
  std::lock_guard lock(event->mutex);
  event->time = time;
  event->last = Executor::get().give(state_of(stream),
                                     {.run = [time] { *time = std::chrono::steady_clock::now(); }});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto error = refuse()) return *error;
  if (!is_handle(event)) return remember(cudaErrorInvalidResourceHandle);
  std::lock_guard lock(event->mutex);
  return Executor::get().reached(event->last) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto error = refuse(Call::kEventSynchronize)) return *error;
  if (!is_handle(event)) return remember(cudaErrorInvalidResourceHandle);
  Ticket last;
  {
    std::lock_guard lock(event->mutex);
    last = event->last;
  }
  Executor::get().wait(last);
  return remember(Executor::get().failure());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (const auto error = refuse()) return *error;
  if (!is_handle(start) || !is_handle(end)) return remember(cudaErrorInvalidResourceHandle);
  CUevent_st::Time times[2];
  int i = 0;
  for (const cudaEvent_t event : {start, end}) {
    std::lock_guard lock(event->mutex);
    if (!event->timed || !event->time) return remember(cudaErrorInvalidResourceHandle);
    if (!Executor::get().reached(event->last)) return cudaErrorNotReady;
    times[i++] = *event->time;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const auto error = refuse(Call::kHostFunction)) return *error;
  if (!is_stream(stream)) return remember(cudaErrorInvalidResourceHandle);
  Executor::get().give(state_of(stream), {.host = [function, data] { function(data); }});
  return cudaSuccess;
}
