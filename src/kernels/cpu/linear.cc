#include "kernels/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cpu/elementwise.h"

namespace barge {
namespace {

// A task's last row of an odd number of inputs may be written past the tile by one row.
constexpr std::size_t kTileSlack = sizeof(float) * kTileChannels;
constexpr std::size_t kSmallScratch = 64_KiB;

// oneDNN pads inputs to blocks of at most 64.
std::size_t padded(std::int64_t inputs) { return round_up(static_cast<std::size_t>(inputs), 64); }

// The thread's workspace, in this order.
struct Areas {
  std::size_t tiles, x, sums, scratch, all;

  Areas(std::int64_t max_inputs, DType dtype) {
    const std::size_t size = size_of(dtype);
    const std::size_t tile = size * padded(max_inputs) * kTileChannels;
    const std::size_t rows = size * padded(max_inputs) * kRowTile;
    tiles = 0;
    x = round_up(std::max(kTilesBytes, tile) + kTileSlack, 64);
    sums = x + rows;
    scratch = sums + kSumsBytes;
    // oneDNN may copy the row tile once more where the number of inputs is odd.
    all = round_up(scratch + rows + kSmallScratch, kSectorBytes);
  }
};

}  // namespace

struct Linear::Call {
  const MatrixView& x;
  const ChannelMap& channels;
  const float* bias;
  const MatrixView& y;
  Epilogue epilogue;
  Product& product;
};

std::size_t Linear::workspace_bytes(const KernelLimits& limits) {
  return Areas(limits.max_inputs, product_dtype(limits.compute)).all;
}

Linear::Linear(const KernelLimits& limits, ThreadPool& pool, std::byte* workspace,
               std::size_t thread_bytes)
    : limits_(limits), pool_(pool), workspace_(workspace), thread_bytes_(thread_bytes) {}

Product& Linear::product_for(std::int64_t inputs) {
  auto& product = products_[inputs];
  if (!product) {
    const Areas areas(limits_.max_inputs, product_dtype(limits_.compute));
    auto made = make_product(inputs, limits_.compute, pool_.threads());
    if (made->scratch_bytes() > areas.all - areas.scratch)
      throw Error(concat("a product of ", inputs, " inputs wants ",
                         format_bytes(made->scratch_bytes()), " of scratch, planned were ",
                         format_bytes(areas.all - areas.scratch), "; please report this"));
    product = std::move(made);
  }
  return *product;
}

void Linear::run(const MatrixView& x, const ChannelMap& channels, const float* bias,
                 const MatrixView& y, Epilogue epilogue) {
  if (x.rows == 0 || channels.channels() == 0) return;
  const Call call{x, channels, bias, y, epilogue, product_for(x.cols)};
  const LinearPlan plan(channels.channels(), x.rows, call.product.layout().bytes, pool_.threads());
  pool_.run(plan.tasks,
            [&](std::int64_t i, int thread) { run_task(call, plan.task(i, x.rows), thread); });
}

void Linear::run_task(const Call& call, const LinearPlan::Task& task, int thread) {
  const TileLayout& layout = call.product.layout();
  const Areas areas(limits_.max_inputs, layout.dtype);
  std::byte* const mine = workspace_ + static_cast<std::size_t>(thread) * thread_bytes_;
  auto* const sums = reinterpret_cast<float*>(mine + areas.sums);

  const std::int64_t tiles = task.end_tile - task.first_tile;
  for (std::int64_t t = 0; t < tiles; ++t)
    dequantise_tile(call.channels, (task.first_tile + t) * kTileChannels, layout,
                    call.product.round(),
                    mine + areas.tiles + static_cast<std::size_t>(t) * layout.bytes);

  for (std::int64_t row = task.first_row; row < task.end_row; row += kRowTile) {
    const std::int64_t rows = std::min(kRowTile, task.end_row - row);
    const std::byte* x = call.x.row(row);
    if (rows < kRowTile || call.x.dtype != layout.dtype || call.x.stride != call.x.cols) {
      pack_rows(call.x.row_range(row, rows), layout.dtype, kRowTile, mine + areas.x);
      x = mine + areas.x;
    }
    for (std::int64_t t = 0; t < tiles; ++t) {
      call.product.multiply(thread, x,
                            mine + areas.tiles + static_cast<std::size_t>(t) * layout.bytes,
                            mine + areas.scratch, sums);
      const std::int64_t channel = (task.first_tile + t) * kTileChannels;
      const std::int64_t count = std::min(kTileChannels, call.channels.channels() - channel);
      finish_outputs(sums, kTileChannels, call.bias != nullptr ? call.bias + channel : nullptr,
                     call.epilogue, call.y.row_range(row, rows).columns(channel, count));
    }
  }
}

}  // namespace barge
