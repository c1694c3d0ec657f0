#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/matrix_view.h"
#include "kernels/backend.h"
#include "kernels/kernels.h"
#include "policy/footprint.h"

namespace barge {

/// Attention of generated positions by the CPU, on the pages of host memory in which the KV cache
/// is at home, while a discrete device goes on with other rows. Queries, keys and values come up by
/// the device's store stream. Results go down by its compute stream, which waits for them anyway:
/// on the load stream they would hold up the weights behind them. Only events order the two.
/// One thread.
class HostAttention {
 public:
  /// Shapes of a model's attention.
  struct Shape {
    KvFormat format;
    int page_positions = 0, heads = 0;
    float scale = 1;
    DType results = DType::kF32;  // type of what comes of it
    int rows = 0;                 // of one sweep at most: a block's sequences
  };

  /// Allocates what `footprint` plans for it: pinned rows on `device`, workspace on `cpu`.
  HostAttention(Backend& cpu, Device& device, const Shape& shape, const Footprint& footprint);
  /// Waits for what is under way.
  ~HostAttention();
  HostAttention(const HostAttention&) = delete;
  HostAttention& operator=(const HostAttention&) = delete;

  /// Of the CPU, `wanted` or (0) as many as leave two for those who feed the device and the disk.
  static int threads(int wanted);
  /// The bounds of its kernel table.
  static KernelLimits limits(int heads, int head_dim, int rows);

  /// Appends and attends, when `projected` (q, k, v in device memory) and `ready` (the pages) are
  /// done. Spans have one row each, numbered as in q, k, v, whose row 0 is the block's answer
  /// `first_answer`; they mustn't change before `collect`. The pages may be reused after the event.
  Event attend(std::span<const AttentionSpan> spans, const Event& ready, MatrixView q, MatrixView k,
               MatrixView v, const Event& projected, std::int64_t first_answer);
  /// Later work of the compute stream finds the results in `to`, whose row 0 is the block's answer
  /// `first_answer`: those of all calls since the last collection of these rows.
  void collect(MatrixView to, std::int64_t first_answer);
  /// That the CPU attended so far. Thread-safe.
  double busy_seconds() const { return static_cast<double>(busy_microseconds_) * 1e-6; }

 private:
  struct Rows {  // consecutive ones
    std::int64_t first, count;
  };
  struct UnderWay {
    std::vector<Rows> rows;  // by answer of the block
    Event attended;
  };

  MatrixView take(std::int64_t cols, DType dtype);

  Backend& cpu_;
  Device& device_;
  const Shape shape_;
  Buffer rows_;
  std::size_t taken_ = 0;           // bytes of rows_
  MatrixView q_, k_, v_, results_;  // in host memory, by answer of the block
  std::unique_ptr<Kernels> kernels_;
  Seconds began_{};  // of the CPU's stream
  std::atomic<std::int64_t> busy_microseconds_ = 0;
  std::deque<UnderWay> under_way_;  // not yet collected, oldest first
};

}  // namespace barge
