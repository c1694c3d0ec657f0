#include "kernels/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/errors.h"
#include "kernels/cpu/elementwise.h"

namespace barge {
namespace {

// Weight tiles that a task holds together, so that x is read less often: half to three quarters of
// the second-level caches of current servers (1 or 2 MiB), or a single tile if that is larger.
constexpr std::size_t kTilesBytes = 768_KiB;
// A task's last row of an odd number of inputs may be written past the tile by one row.
constexpr std::size_t kTileSlack = sizeof(float) * kTileChannels;
constexpr std::size_t kSumsBytes = sizeof(float) * kRowTile * kTileChannels;
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

// Tasks: (group of weight tiles) x (run of row tiles), the former fastest.
struct Linear::Plan {
  std::int64_t tiles, tiles_a_task, row_tiles, row_tiles_a_task, column_tasks, tasks;

  Plan(std::int64_t channels, std::int64_t rows, const TileLayout& layout, std::int64_t threads) {
    tiles = (channels + kTileChannels - 1) / kTileChannels;
    row_tiles = (rows + kRowTile - 1) / kRowTile;
    const auto fit = static_cast<std::int64_t>(kTilesBytes / layout.bytes);
    // x of two row tiles stays in the cache by itself; else tasks of several tiles, but enough of
    // them that threads end together.
    const std::int64_t most = row_tiles <= 2 ? 1 : std::max<std::int64_t>(fit, 1);
    tiles_a_task = std::clamp(tiles / (8 * threads), std::int64_t{1}, most);
    column_tasks = (tiles + tiles_a_task - 1) / tiles_a_task;
    // Each run of rows dequantises the weights again: at least four tiles a run, unless threads
    // would have nothing to do.
    const std::int64_t wanted = (3 * threads + column_tasks - 1) / column_tasks;
    std::int64_t runs =
        std::clamp(wanted, std::int64_t{1}, std::max<std::int64_t>(row_tiles / 4, 1));
    if (column_tasks < threads)
      runs = std::max(runs, std::min(row_tiles, (threads + column_tasks - 1) / column_tasks));
    row_tiles_a_task = (row_tiles + runs - 1) / runs;
    tasks = column_tasks * ((row_tiles + row_tiles_a_task - 1) / row_tiles_a_task);
  }
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
  const Plan plan(channels.channels(), x.rows, call.product.layout(), pool_.threads());
  pool_.run(plan.tasks, [&](std::int64_t task, int thread) { run_task(call, plan, task, thread); });
}

void Linear::run_task(const Call& call, const Plan& plan, std::int64_t task, int thread) {
  const TileLayout& layout = call.product.layout();
  const Areas areas(limits_.max_inputs, layout.dtype);
  std::byte* const mine = workspace_ + static_cast<std::size_t>(thread) * thread_bytes_;
  auto* const sums = reinterpret_cast<float*>(mine + areas.sums);

  const std::int64_t first_tile = task % plan.column_tasks * plan.tiles_a_task;
  const std::int64_t tiles = std::min(plan.tiles_a_task, plan.tiles - first_tile);
  for (std::int64_t t = 0; t < tiles; ++t)
    dequantise_tile(call.channels, (first_tile + t) * kTileChannels, layout, call.product.round(),
                    mine + areas.tiles + static_cast<std::size_t>(t) * layout.bytes);

  const std::int64_t first_row = task / plan.column_tasks * plan.row_tiles_a_task * kRowTile;
  const std::int64_t end_row = std::min(call.x.rows, first_row + plan.row_tiles_a_task * kRowTile);
  for (std::int64_t row = first_row; row < end_row; row += kRowTile) {
    const std::int64_t rows = std::min(kRowTile, end_row - row);
    const std::byte* x = call.x.row(row);
    if (rows < kRowTile || call.x.dtype != layout.dtype || call.x.stride != call.x.cols) {
      pack_rows(call.x.row_range(row, rows), layout.dtype, kRowTile, mine + areas.x);
      x = mine + areas.x;
    }
    for (std::int64_t t = 0; t < tiles; ++t) {
      call.product.multiply(thread, x,
                            mine + areas.tiles + static_cast<std::size_t>(t) * layout.bytes,
                            mine + areas.scratch, sums);
      const std::int64_t channel = (first_tile + t) * kTileChannels;
      const std::int64_t count = std::min(kTileChannels, call.channels.channels() - channel);
      finish_outputs(sums, kTileChannels, call.bias != nullptr ? call.bias + channel : nullptr,
                     call.epilogue, call.y.row_range(row, rows).columns(channel, count));
    }
  }
}

}  // namespace barge
