#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/dtype.h"
#include "core/row_tile.h"
#include "kernels/cpu/tile_layout.h"

namespace barge {

/// The product of one row tile and one weight tile of `inputs` inputs.
class Product {
 public:
  virtual ~Product() = default;

  /// How it wants the weights; rows of x have the same type, dense.
  const TileLayout& layout() const { return layout_; }
  /// Whether weights must be rounded to bf16 on their way into a wider layout.
  bool round() const { return round_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  /// sums [kRowTile, kTileChannels] = x [kRowTile, inputs] * tile. `thread` names the caller, below
  /// the number given when made; threads may call at the same time, each with its own scratch.
  virtual void multiply(int thread, const std::byte* x, const std::byte* tile, std::byte* scratch,
                        float* sums) = 0;

 protected:
  TileLayout layout_;
  bool round_ = false;
  std::size_t scratch_bytes_ = 0;
};

/// oneDNN's, or a plain one where its generated code can't be watched (ThreadSanitizer).
std::unique_ptr<Product> make_product(std::int64_t inputs, DType compute, int threads);

std::unique_ptr<Product> make_onednn_product(std::int64_t inputs, DType compute, int threads);
std::unique_ptr<Product> make_plain_product(std::int64_t inputs, DType compute);

/// Type of x and of weight tiles in products of `compute`: bf16 only where the processor has it.
DType product_dtype(DType compute);

}  // namespace barge
