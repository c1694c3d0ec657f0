#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/event.h"

namespace barge {

/// What happened when: named work in lanes, as chrome://tracing and ui.perfetto.dev show it.
/// Work of a stream is seen from the host, by threads that wait for its events: to within some ten
/// microseconds, and without holding the stream up. Thread-safe.
class Trace {
 public:
  enum class Lane : std::uint8_t { kCompute, kLoad, kStore, kDiskRead, kDiskWrite, kCount };

  /// `clock` outlives it.
  explicit Trace(const Clock& clock);
  /// Waits for the events that it was given.
  ~Trace();
  Trace(const Trace&) = delete;

  /// Work between two events. Those of a lane are given in the order in which they happen; work
  /// that fails is left out. From the first to the last of a sweep's a lane of its own shows it.
  void span(Lane lane, std::string name, Event begin, Event end, int sweep = kNoSweep);
  /// Work that is over.
  void span(Lane lane, std::string name, Seconds begin, Seconds end);
  Seconds now() const { return clock_.now(); }

  /// Waits for the work that was given so far: its events are needed no more.
  void drain();
  /// The same, then writes a JSON file. Throws IoError.
  void write(const std::filesystem::path& file);

 private:
  static constexpr int kNoSweep = -1;
  static constexpr std::size_t kLanes = static_cast<std::size_t>(Lane::kCount);
  struct Pending {
    std::string name;
    Event begin, end;
    int sweep;
  };
  struct Watched {
    std::deque<Pending> pending;  // the front one is being waited for
    std::jthread thread;          // begun with the first work; ends when stopping_ and all is seen
  };
  struct Span {
    Lane lane;
    std::string name;
    Seconds begin, end;
    int sweep;
  };

  void watch(Lane lane);
  void drain(std::unique_lock<std::mutex>& lock);

  const Clock& clock_;
  const Seconds start_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<Span> spans_;
  std::array<Watched, kLanes> lanes_;  // last: its threads use the above
};

}  // namespace barge
