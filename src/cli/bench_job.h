#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "cli/session.h"

namespace barge {

/// Sees the sweeps of a run as they end. Thread-safe.
class SweepMeter {
 public:
  struct Sweep {
    double end = 0;  // seconds since the run began
    std::size_t resident_bytes = 0;
    SweepRecord record;
  };

  explicit SweepMeter(const Clock& clock) : clock_(clock), begin_(clock.now()) {}

  /// A run begins: what came before is forgotten.
  void begin();
  void add(const SweepRecord& record);
  std::vector<Sweep> sweeps() const;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;  // guards what follows
  Seconds begin_;
  std::vector<Sweep> sweeps_;
};

/// What a job took and did.
struct BenchRun {
  double seconds = 0;
  std::size_t prompt_tokens = 0;  // given; those computed may be fewer, or more
  std::vector<SweepMeter::Sweep> sweeps;
};

/// Submits the lines in order, as many at once as `barge run` does, and waits for their answers.
/// Throws Error with the first failure of a line.
BenchRun run_lines(Session& session, SweepMeter& meter, std::span<const TextRequest> lines);

}  // namespace barge
