#pragma once

#include <cstdint>

#include "core/matrix_view.h"
#include "kernels/kernels.h"

namespace barge {

/// One row of Kernels::activate. Thread-safe, as all of this file.
void activate_row(Kernels::Activation activation, const MatrixView& gate, const MatrixView& up,
                  const MatrixView& y, std::int64_t row);

/// Rotates the `heads` heads of one row, [heads, 2 * half] f32, in place. cosines and sines [half].
void rotate_row(float* x, std::int64_t heads, std::int64_t half, const float* cosines,
                const float* sines);

/// y[r, c] (+)= sums[r * sums_stride + c] + bias[c]; bias may be null, y any type.
void finish_outputs(const float* sums, std::int64_t sums_stride, const float* bias,
                    Epilogue epilogue, const MatrixView& y);

/// to [rows, x.cols], dense, of type `dtype` = x, and zeros in the rows that x hasn't.
void pack_rows(const MatrixView& x, DType dtype, std::int64_t rows, std::byte* to);

}  // namespace barge
