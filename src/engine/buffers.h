#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/bytes.h"
#include "core/device.h"
#include "core/matrix_view.h"
#include "policy/footprint.h"

namespace barge {

/// Rows of intermediate results begin at multiples of a cache line, so that the bytes of n rows
/// are n times those of one.
constexpr std::size_t padded_row_bytes(std::int64_t cols, DType dtype) {
  return round_up(static_cast<std::size_t>(cols) * size_of(dtype), 64);
}

/// Device memory that is handed out front to back and taken back all at once. Whoever resets it
/// knows that the compute stream, which alone uses it, keeps to its order.
class Arena {
 public:
  Arena(Device& device, std::size_t bytes, std::string_view tag)
      : buffer_(device.allocate(Tier::kDevice, bytes, tag)) {}

  void reset() { used_ = 0; }
  /// [rows, cols], rows padded. Throws Error if the arena was planned too small: a bug of ours.
  MatrixView matrix(std::int64_t rows, std::int64_t cols, DType dtype);
  /// `bytes`, at a multiple of 64.
  std::byte* bytes(std::size_t bytes);

 private:
  Buffer buffer_;
  std::size_t used_ = 0;
};

/// All device memory of a sweep beside weights and KV cache, as planned by footprint().
struct SweepBuffers {
  SweepBuffers(Device& device, const Footprint& footprint);

  Arena hidden;                    // the residual stream
  Arena scratch;                   // of one part
  Arena attended;                  // what one layer's attention leaves for its MLP part
  std::optional<Arena> projected;  // where the CPU attends: q, k, v until it has read them
  Arena wanted;                    // of the output part, logits included
  Arena lookup;                    // encoded table rows of one sweep
  // Only on a discrete device: tokens that it has drawn; these and logits on the host.
  Buffer ids, host_ids, host_logits;
};

}  // namespace barge
