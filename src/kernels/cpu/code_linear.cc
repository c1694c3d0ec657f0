#include "kernels/cpu/code_linear.h"

#include <algorithm>

#include "core/bytes.h"
#include "kernels/cpu/elementwise.h"

namespace barge {
namespace {

// Rows that are rounded before they are multiplied: so many that unpacking the weights once for
// each of these costs a hundredth.
constexpr std::int64_t kMostRows = 512;
constexpr std::int64_t kLeastGroup = 32;
constexpr std::int64_t kRowsATask = 4;  // some microseconds of rounding

std::int64_t rows_at_once(const KernelLimits& limits) {
  return std::clamp<std::int64_t>(limits.max_rows, 1, kMostRows);
}

// Rows a power of two apart would share few places in the first-level cache.
std::int64_t stride_of(std::int64_t inputs) { return (inputs + 63) / 64 * 64 + 64; }

std::size_t most_tile_bytes(const KernelLimits& limits) {
  return CodeShape{Encoding::kQ4, kLeastGroup, (limits.max_inputs + 63) / 64 * 64}.tile_bytes();
}

std::size_t tiles_bytes(const KernelLimits& limits) {
  return round_up(std::max(kTilesBytes, most_tile_bytes(limits)), 64);
}

}  // namespace

struct CodeLinear::Call {
  CodeShape shape;
  MatrixView x;
  const ChannelMap& channels;
  const float* bias;
  MatrixView y;
  Epilogue epilogue;
};

std::size_t CodeLinear::workspace_bytes(const KernelLimits& limits) {
  return round_up(tiles_bytes(limits) + kSumsBytes, kSectorBytes);
}

std::size_t CodeLinear::shared_bytes(const KernelLimits& limits) {
  const std::int64_t groups = (limits.max_inputs + kLeastGroup - 1) / kLeastGroup;
  const std::size_t row_bytes = static_cast<std::size_t>(stride_of(limits.max_inputs)) +
                                2 * sizeof(float) * static_cast<std::size_t>(groups);
  return round_up(static_cast<std::size_t>(rows_at_once(limits)) * row_bytes, kSectorBytes);
}

CodeLinear::CodeLinear(const KernelLimits& limits, ThreadPool& pool, std::byte* workspace,
                       std::size_t thread_bytes, std::byte* shared)
    : limits_(limits),
      pool_(pool),
      workspace_(workspace),
      thread_bytes_(thread_bytes),
      shared_(shared),
      product_(make_code_product()) {}

RowCodes CodeLinear::codes_of(const CodeShape& shape) const {
  const std::int64_t rows = rows_at_once(limits_);
  RowCodes codes{.codes = reinterpret_cast<std::int8_t*>(shared_),
                 .stride = stride_of(shape.inputs),
                 .groups = shape.groups()};
  codes.scales = reinterpret_cast<float*>(codes.codes + rows * codes.stride);
  codes.sums = codes.scales + rows * codes.groups;
  return codes;
}

void CodeLinear::run(const MatrixView& x, const ChannelMap& channels, const float* bias,
                     const MatrixView& y, Epilogue epilogue) {
  if (x.rows == 0 || channels.channels() == 0) return;
  const WeightFormat& format = channels.panels().front().layout.format;
  const CodeShape shape{format.encoding, format.group, x.cols};
  const std::int64_t most = rows_at_once(limits_);
  for (std::int64_t row = 0; row < x.rows; row += most) {
    const std::int64_t rows = std::min(most, x.rows - row);
    run_rows({shape, x.row_range(row, rows), channels, bias, y.row_range(row, rows), epilogue});
  }
}

void CodeLinear::run_rows(const Call& call) {
  const RowCodes codes = codes_of(call.shape);
  pool_.run((call.x.rows + kRowsATask - 1) / kRowsATask, [&](std::int64_t i, int) {
    const std::int64_t end = std::min(call.x.rows, (i + 1) * kRowsATask);
    for (std::int64_t row = i * kRowsATask; row < end; ++row)
      product_->quantise_row(call.shape, call.x, row, codes.row(row));
  });
  const LinearPlan plan(call.channels.channels(), call.x.rows, call.shape.tile_bytes(),
                        pool_.threads());
  pool_.run(plan.tasks, [&](std::int64_t i, int thread) {
    run_task(call, codes, plan.task(i, call.x.rows), thread);
  });
}

void CodeLinear::run_task(const Call& call, const RowCodes& codes, const LinearPlan::Task& task,
                          int thread) {
  std::byte* const mine = workspace_ + static_cast<std::size_t>(thread) * thread_bytes_;
  auto* const sums = reinterpret_cast<float*>(mine + tiles_bytes(limits_));
  const auto tile_at = [&](std::int64_t tile) {
    return mine + static_cast<std::size_t>(tile - task.first_tile) * call.shape.tile_bytes();
  };
  for (std::int64_t tile = task.first_tile; tile < task.end_tile; ++tile)
    product_->unpack_tile(call.shape, call.channels, tile * kTileChannels, tile_at(tile));

  for (std::int64_t row = task.first_row; row < task.end_row; row += kRowTile) {
    const std::int64_t rows = std::min(kRowTile, task.end_row - row);
    for (std::int64_t tile = task.first_tile; tile < task.end_tile; ++tile) {
      product_->multiply(call.shape, codes.row(row), rows, tile_at(tile), sums);
      const std::int64_t channel = tile * kTileChannels;
      const std::int64_t count = std::min(kTileChannels, call.channels.channels() - channel);
      finish_outputs(sums, kTileChannels, call.bias != nullptr ? call.bias + channel : nullptr,
                     call.epilogue, call.y.row_range(row, rows).columns(channel, count));
    }
  }
}

}  // namespace barge
