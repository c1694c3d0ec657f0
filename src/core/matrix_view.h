#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace barge {

/// A matrix in somebody else's memory: [rows, cols], row-major, rows `stride` elements apart.
struct MatrixView {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t rows = 0, cols = 0, stride = 0;

  std::byte* row(std::int64_t r) const {
    return data + static_cast<std::size_t>(r * stride) * size_of(dtype);
  }
  template <typename T>
  T* row_as(std::int64_t r) const {
    return reinterpret_cast<T*>(row(r));
  }
  /// Columns [first, first + count).
  MatrixView columns(std::int64_t first, std::int64_t count) const {
    return {data + static_cast<std::size_t>(first) * size_of(dtype), dtype, rows, count, stride};
  }
  /// Rows [first, first + count).
  MatrixView row_range(std::int64_t first, std::int64_t count) const {
    return {row(first), dtype, count, cols, stride};
  }
};

}  // namespace barge
