#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace barge {

/// Operations per second (two a multiply-add) that bare oneDNN reaches in products of [rows,
/// inputs] by [inputs, outputs], one on each of `threads` threads, for about `seconds`: weights are
/// ready in memory, in the layout that it likes best. What barge's own products are held against.
/// Takes some 4 bytes * threads * (rows * inputs + inputs * outputs + rows * outputs) of memory for
/// a while. `activation_bits` 8: both in 8 bits, sums in int32; 16: in the compute type.
double bare_product_rate(DType compute, int activation_bits, int threads, std::int64_t rows,
                         std::int64_t inputs, std::int64_t outputs, double seconds);

/// The best of a row tile by weights that fit the caches, and of a larger product.
double best_product_rate(DType compute, int activation_bits, int threads, std::int64_t inputs,
                         double seconds);

}  // namespace barge
