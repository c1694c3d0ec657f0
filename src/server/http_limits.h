#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace barge {

/// What one client may take of the server, in bytes, counts and time. Tests shrink it.
struct HttpLimits {
  std::size_t max_connections = 2048;  // beyond: 503 and the end

  std::size_t max_header_bytes = 32 << 10;  // the request line and all fields: 431
  std::size_t max_target_bytes = 8 << 10;   // 414
  std::size_t max_fields = 100;             // 431
  std::uint64_t max_json_bytes = 16 << 20;  // of a body that is kept in memory: 413
  std::size_t max_held_bytes = 64 << 20;    // of such bodies in all connections: 503
  /// Of a body that was refused. Clients read an answer only when all is sent; more than this is
  /// cut off.
  std::uint64_t max_drain_bytes = std::uint64_t{512} << 20;

  std::chrono::milliseconds idle_timeout{75'000};    // between requests
  std::chrono::milliseconds header_timeout{20'000};  // from a request's first byte to its body
  std::chrono::milliseconds drain_timeout{120'000};
  /// Bodies and answers: in each `pace_time` at least `pace_bytes`, or all that is left, must pass
  /// (546 bytes/s). A byte now and then keeps no connection open.
  std::chrono::milliseconds pace_time{60'000};
  std::size_t pace_bytes = 32 << 10;
};

}  // namespace barge
