// Kernels around matrix products: rows into and out of a tile, and the comparison of two results.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/matrix_view.h"

namespace barge::cuda {

/// to[i] = from[i % from.rows], any one type of both, to.cols columns.
void copy_rows(cudaStream_t stream, MatrixView from, MatrixView to);

/// Adds to *count (on the device) how many numbers of a and b, of one shape and type, differ in
/// their bits.
void count_differences(cudaStream_t stream, MatrixView a, MatrixView b, std::uint32_t* count);

}  // namespace barge::cuda
