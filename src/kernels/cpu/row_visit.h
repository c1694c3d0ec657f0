#pragma once

#include "core/matrix_view.h"

namespace barge {

/// Calls visit(pointer to the row's first number), typed as the view is.
template <typename Visit>
void visit_row(const MatrixView& x, std::int64_t row, const Visit& visit) {
  switch (x.dtype) {
    case DType::kF32:
      return visit(x.row_as<float>(row));
    case DType::kF16:
      return visit(x.row_as<F16>(row));
    case DType::kBF16:
      return visit(x.row_as<BF16>(row));
  }
}

}  // namespace barge
