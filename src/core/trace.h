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
  static constexpr int kNoSweep = -1;
  enum class Lane : std::uint8_t {
    kEngine,  // what its thread waits for
    kCompute,
    kLoad,
    kStore,
    kWeightRead,  // of the disk, as the next two
    kKvRead,
    kDiskWrite,
    kCount
  };

  /// What was done, or waited for.
  struct Work {
    std::string name;
    std::size_t bytes = 0;  // that were moved
    bool wait = false;      // nothing was done; short ones are left out
    int sweep = kNoSweep;   // from the first to the last of a sweep's a lane of its own shows it
  };

  /// `clock` outlives it.
  explicit Trace(const Clock& clock);
  /// Waits for the events that it was given.
  ~Trace();
  Trace(const Trace&) = delete;

  /// Work between two events. Those of a lane are given in the order in which they happen; work
  /// that fails is left out.
  void span(Lane lane, Work work, Event begin, Event end);
  /// Work that is over.
  void span(Lane lane, Work work, Seconds begin, Seconds end);
  Seconds now() const { return clock_.now(); }

  /// Waits for the work that was given so far: its events are needed no more.
  void drain();
  /// The same, then writes a JSON file. Throws IoError.
  void write(const std::filesystem::path& file);

 private:
  static constexpr std::size_t kLanes = static_cast<std::size_t>(Lane::kCount);
  struct Pending {
    Work work;
    Event begin, end;
  };
  struct Watched {
    std::deque<Pending> pending;  // the front one is being waited for
    std::jthread thread;          // begun with the first work; ends when stopping_ and all is seen
  };
  struct Span {
    Lane lane;
    Work work;
    Seconds begin, end;
  };

  void watch(Lane lane);
  void keep(Span span);  // under mutex_
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
