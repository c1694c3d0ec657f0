#pragma once

#include <cstdint>

namespace barge {

/// Rows that the CPU multiplies at once. Always this many, so that a row's bits don't depend on its
/// company; the last tile of a call is padded, and costs as much as a full one. 64 rather than 128:
/// a decoding micro-batch is often 64 rows, and AVX-512 BF16 is as fast with either (530 Gop/s a
/// Zen 5 core; AMX 0.9 of 128's).
inline constexpr std::int64_t kRowTile = 64;

}  // namespace barge
