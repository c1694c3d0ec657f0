#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "core/row_tile.h"
#include "kernels/cpu/tile_layout.h"

namespace barge {

/// Weight tiles that a task holds together, so that x is read less often: half to three quarters of
/// the second-level caches of current servers (1 or 2 MiB), or a single tile if that is larger.
inline constexpr std::size_t kTilesBytes = 768_KiB;
inline constexpr std::size_t kSumsBytes = sizeof(float) * kRowTile * kTileChannels;

/// How `linear` is cut. Tasks: (group of weight tiles) x (run of row tiles), the former fastest.
struct LinearPlan {
  std::int64_t tiles, tiles_a_task, row_tiles, row_tiles_a_task, column_tasks, tasks;

  LinearPlan(std::int64_t channels, std::int64_t rows, std::size_t tile_bytes,
             std::int64_t threads) {
    tiles = (channels + kTileChannels - 1) / kTileChannels;
    row_tiles = (rows + kRowTile - 1) / kRowTile;
    const auto fit = static_cast<std::int64_t>(kTilesBytes / tile_bytes);
    // x of two row tiles stays in the cache by itself; else tasks of several tiles, but enough of
    // them that threads end together.
    const std::int64_t most = row_tiles <= 2 ? 1 : std::max<std::int64_t>(fit, 1);
    tiles_a_task = std::clamp(tiles / (8 * threads), std::int64_t{1}, most);
    column_tasks = (tiles + tiles_a_task - 1) / tiles_a_task;
    // Each run of rows decodes the weights again: at least four tiles a run, unless threads would
    // have nothing to do.
    const std::int64_t wanted = (3 * threads + column_tasks - 1) / column_tasks;
    std::int64_t runs =
        std::clamp(wanted, std::int64_t{1}, std::max<std::int64_t>(row_tiles / 4, 1));
    if (column_tasks < threads)
      runs = std::max(runs, std::min(row_tiles, (threads + column_tasks - 1) / column_tasks));
    row_tiles_a_task = (row_tiles + runs - 1) / runs;
    tasks = column_tasks * ((row_tiles + row_tiles_a_task - 1) / row_tiles_a_task);
  }

  /// What task `task` covers: weight tiles [first_tile, end_tile) of rows [first_row, end_row).
  struct Task {
    std::int64_t first_tile, end_tile, first_row, end_row;
  };
  Task task(std::int64_t task, std::int64_t rows) const {
    const std::int64_t first_tile = task % column_tasks * tiles_a_task;
    const std::int64_t first_row = task / column_tasks * row_tiles_a_task * kRowTile;
    return {first_tile, std::min(tiles, first_tile + tiles_a_task), first_row,
            std::min(rows, first_row + row_tiles_a_task * kRowTile)};
  }
};

}  // namespace barge
