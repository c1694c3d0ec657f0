#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/generator.h"
#include "server/prometheus_text.h"
#include "server/server.h"

namespace barge {

/// What batches are at, for /metrics.
struct BatchNumbers {
  struct Running {
    std::int64_t total = 0, completed = 0, failed = 0;  // lines
    double seconds_left = -1;                           // -1: not known yet
  };
  std::map<std::string, Running> running;              // by id
  std::size_t waiting = 0;                             // batches
  std::int64_t lines_completed = 0, lines_failed = 0;  // since the server's start
};

/// Counts what the server answers, and prints that with what engine and batches are at as
/// Prometheus reads it. Names are vLLM's where the meaning is. Thread-safe.
class Metrics {
 public:
  void answered(int http_status);
  /// A choice of a completion on-line ended: stop, length, abort (its client went away) or error.
  void choice_ended(std::string_view reason);
  /// A completion on-line was answered, so long after it came.
  void completion_took(double seconds);

  /// `model`: null while it is being loaded.
  std::string print(const std::string& model_name, const ServedModel* model,
                    const BatchNumbers& batches) const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::map<int, std::uint64_t> answers_;
  std::map<std::string, std::uint64_t, std::less<>> choices_;
  LatencyHistogram latency_;
};

}  // namespace barge
