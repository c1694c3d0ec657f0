#include "engine/host_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/errors.h"
#include "engine/buffers.h"

namespace barge {
namespace {

void copy_rows(Stream& stream, MatrixView to, Tier to_tier, std::int64_t to_row, MatrixView from,
               Tier from_tier, std::int64_t from_row, std::int64_t count) {
  // Both have padded rows of the same width.
  stream.copy(to.row(to_row), to_tier, from.row(from_row), from_tier,
              static_cast<std::size_t>(count * from.stride) * size_of(from.dtype));
}

void wait_quietly(Stream& stream) {
  try {
    stream.record().wait();
  } catch (...) {  // reported by the sweep that failed
  }
}

}  // namespace

HostAttention::HostAttention(Backend& cpu, Device& device, const Shape& shape,
                             const Footprint& footprint)
    : cpu_(cpu),
      device_(device),
      shape_(shape),
      rows_(device.allocate(Tier::kHost, footprint.attention_rows, "attention")) {
  if (!cpu.device().unified())
    throw ConfigError(
        concat("only the CPU can attend beside another device, not ", cpu.device().name()));
  const std::int64_t dim = shape.format.head_dim;
  q_ = take(shape.heads * dim, DType::kF32);
  k_ = take(shape.format.kv_heads * dim, DType::kF32);
  v_ = take(shape.format.kv_heads * dim, DType::kF32);
  results_ = take(shape.heads * dim, shape.results);
  kernels_ = cpu.make_kernels(limits(shape.heads, shape.format.head_dim, shape.rows));
}

HostAttention::~HostAttention() {
  wait_quietly(device_.store());
  wait_quietly(cpu_.device().compute());
  wait_quietly(device_.compute());
}

int HostAttention::threads(int wanted) {
  return wanted > 0 ? wanted : std::max(1, usable_processors() - 2);
}

KernelLimits HostAttention::limits(int heads, int head_dim, int rows) {
  return {.compute = DType::kF32,
          .max_rows = rows,
          .max_inputs = 0,
          .heads = heads,
          .head_dim = head_dim};
}

MatrixView HostAttention::take(std::int64_t cols, DType dtype) {
  const std::size_t row_bytes = padded_row_bytes(cols, dtype);
  const MatrixView view{.data = rows_.data() + taken_,
                        .dtype = dtype,
                        .rows = shape_.rows,
                        .cols = cols,
                        .stride = static_cast<std::int64_t>(row_bytes / size_of(dtype))};
  taken_ += static_cast<std::size_t>(shape_.rows) * row_bytes;
  if (taken_ > rows_.bytes())
    throw Error(concat("the rows for attention were planned too small, with ", rows_.bytes(),
                       " bytes; this is a bug of barge"));
  return view;
}

Event HostAttention::attend(std::span<const AttentionSpan> spans, const Event& ready, MatrixView q,
                            MatrixView k, MatrixView v, const Event& projected,
                            std::int64_t first_answer) {
  UnderWay next;
  std::vector<AttentionSpan> here(spans.begin(), spans.end());
  for (AttentionSpan& span : here) {
    span.first_row += first_answer;
    if (span.rows != 1 || span.first_row >= shape_.rows)
      throw Error(concat("answer ", span.first_row, " of ", shape_.rows, " (", span.rows,
                         " new ones) can't be attended by the CPU; this is a bug of barge"));
    if (!next.rows.empty() && next.rows.back().first + next.rows.back().count == span.first_row)
      ++next.rows.back().count;
    else
      next.rows.push_back({span.first_row, 1});
  }
  Stream& up = device_.store();
  up.wait(projected);
  for (const Rows& rows : next.rows)
    for (const auto& [to, from] : {std::pair{q_, q}, std::pair{k_, k}, std::pair{v_, v}})
      copy_rows(up, to, Tier::kHost, rows.first, from, Tier::kDevice, rows.first - first_answer,
                rows.count);
  Stream& compute = cpu_.device().compute();
  compute.wait(up.record());
  compute.wait(ready);
  compute.call([this] { began_ = device_.clock().now(); });
  kernels_->append_kv(shape_.format, shape_.page_positions, here, k_, v_);
  kernels_->attend(shape_.format, shape_.page_positions, here, shape_.heads, shape_.scale, q_,
                   results_);
  compute.call([this] {
    busy_microseconds_ += std::llround((device_.clock().now() - began_).count() * 1e6);
  });
  next.attended = compute.record();
  under_way_.push_back(std::move(next));
  return under_way_.back().attended;
}

void HostAttention::collect(MatrixView to, std::int64_t first_answer) {
  Stream& compute = device_.compute();
  const auto these = [&](const UnderWay& one) {
    return one.rows.front().first >= first_answer &&
           one.rows.front().first < first_answer + to.rows;
  };
  for (; !under_way_.empty() && these(under_way_.front()); under_way_.pop_front()) {
    compute.wait(under_way_.front().attended.named("CPU attention"));
    for (const Rows& rows : under_way_.front().rows)
      copy_rows(compute, to, Tier::kDevice, rows.first - first_answer, results_, Tier::kHost,
                rows.first, rows.count);
  }
}

}  // namespace barge
