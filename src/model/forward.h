#pragma once

#include <cstdint>
#include <span>

#include "core/matrix_view.h"
#include "kernels/kernels.h"

namespace barge {

/// What a family's layers may ask for while one part of a sweep is given to the device. The engine
/// implements it; `rows` are the new tokens that go through the part together: the block's, or
/// those of one half of it. Tensors are named by their index in Part::tensors.
class Forward {
 public:
  virtual ~Forward() = default;

  virtual Kernels& kernels() = 0;
  virtual std::int64_t rows() const = 0;
  virtual std::span<const std::int32_t> tokens() const = 0;     // [rows]
  virtual std::span<const std::int32_t> positions() const = 0;  // [rows]
  /// Input type of products.
  virtual DType compute_type() const = 0;

  /// The residual stream [rows, hidden] f32; stays from part to part.
  virtual MatrixView hidden() = 0;
  /// A matrix of rows() rows for intermediate results, valid until the end of the part.
  virtual MatrixView scratch(std::int64_t cols, DType dtype) = 0;
  /// A kVector tensor in device memory.
  virtual const float* vector(int tensor) = 0;

  /// hidden (+)= rows `ids` of a kTable tensor.
  virtual void lookup(int tensor, std::span<const std::int32_t> ids, Epilogue epilogue) = 0;
  /// y (+)= x W^T + bias; each kMatrix tensor of the part once, in order. bias < 0: none.
  virtual void linear(MatrixView x, int tensor, int bias, MatrixView y, Epilogue epilogue) = 0;

  /// Queries, keys or values [rows, cols] f32; valid until they are attended.
  virtual MatrixView projected(std::int64_t cols) = 0;
  /// Appends k, v to the layer's KV cache and attends, the last thing in a part: what comes of it
  /// may be under way until the next part begins.
  virtual void attend(int layer, MatrixView q, MatrixView k, MatrixView v) = 0;
  /// Results of the part before, which attended: [rows, heads * head_dim] in the compute type.
  virtual MatrixView attended() = 0;

  /// Output part only. The rows of hidden() whose logits are wanted [n, hidden] f32, and where the
  /// logits go [n, vocab] f32. n may be 0: then linear still visits the panels.
  virtual MatrixView wanted_hidden() = 0;
  virtual MatrixView wanted_scratch(std::int64_t cols, DType dtype) = 0;  // [n, cols]
  virtual MatrixView logits() = 0;
};

}  // namespace barge
