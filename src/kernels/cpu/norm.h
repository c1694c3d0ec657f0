#pragma once

#include "core/matrix_view.h"

namespace barge {

/// One row of Kernels::rms_norm and of Kernels::layer_norm. x f32, y any type. Thread-safe.
void rms_norm_row(const MatrixView& x, std::int64_t row, const float* weight, float eps,
                  const MatrixView& y);
void layer_norm_row(const MatrixView& x, std::int64_t row, const float* weight, const float* bias,
                    float eps, const MatrixView& y);

}  // namespace barge
