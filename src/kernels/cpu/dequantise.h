#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/tile_layout.h"
#include "kernels/kernels.h"

namespace barge {

/// Finds the panel of an output channel.
class ChannelMap {
 public:
  explicit ChannelMap(std::span<const WeightPanel> panels);

  std::span<const WeightPanel> panels() const { return panels_; }
  std::int64_t channels() const { return ends_.empty() ? 0 : ends_.back(); }
  struct Place {
    const WeightPanel* panel;
    std::int64_t row;
  };
  Place find(std::int64_t channel) const;

 private:
  std::vector<WeightPanel> panels_;
  std::vector<std::int64_t> ends_;  // channels before the end of each panel
};

/// Writes channels [first, first + kTileChannels), rounded to bf16 if `round` and to the layout's
/// type in any case, into `tile` (layout.bytes); zeros for channels past the last. Thread-safe.
void dequantise_tile(const ChannelMap& channels, std::int64_t first, const TileLayout& layout,
                     bool round, std::byte* tile);

/// out[i] (+)= number first + i of a panel's row, i in [0, count). Thread-safe.
void decode_row(const WeightPanel& panel, std::int64_t row, std::int64_t first, std::int64_t count,
                Epilogue epilogue, float* out);

}  // namespace barge
