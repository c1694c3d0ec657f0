#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "kernels/cuda/event_pool.h"

namespace barge::cuda {

/// Seconds that a stream spends on work of each kind: pairs of timing events around runs of such
/// work, read when they are done; nothing waits for them. Between a run's parts the device is
/// thought busy, so a run has to end before the stream waits for anything.
class SpanMeter {
 public:
  enum class Kind : std::uint8_t { kDown, kUp, kCompute };
  using Seconds = std::array<double, 3>;  // of each Kind

  /// `timing`: events with timing enabled.
  SpanMeter(EventPool& timing, cudaStream_t stream) : timing_(timing), stream_(stream) {}

  /// Before work of `kind`: opens a run, unless one of this kind is open. The stream's thread only.
  void begin(Kind kind);
  /// Ends the run that is open, if one is. The stream's thread only.
  void end();
  /// Of all runs that are over. Any thread.
  Seconds seconds();

 private:
  struct Span {
    Kind kind;
    EventPool::Loan first, last;
  };

  void harvest();  // under mutex_

  EventPool& timing_;
  const cudaStream_t stream_;
  bool open_ = false;  // the stream's thread's, as are the next two
  Kind kind_ = Kind::kCompute;
  EventPool::Loan first_;
  std::mutex mutex_;  // guards what follows
  std::deque<Span> ended_;
  Seconds seconds_{};
};

}  // namespace barge::cuda
