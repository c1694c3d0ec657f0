#pragma once

#include <cstddef>
#include <span>

#include "quant/format.h"

namespace barge {

/// Plain encoders and decoders, on one thread: what packs are written with and what fast kernels
/// are held against.

/// Encodes rows [layout.rows, layout.cols] of f32 into `panel` (layout.bytes).
/// Q4: scale = (max - min) / 15 and min, both rounded to f16 before codes are chosen with them
/// (round to nearest, clamped). Q8: scale = max|x| / 127. Not finite input: FormatError.
void encode_panel(const PanelLayout& layout, std::span<const float> rows,
                  std::span<std::byte> panel);

/// Decodes row `row` of a panel into out [cols].
void decode_panel_row(const PanelLayout& layout, std::span<const std::byte> panel, std::int64_t row,
                      std::span<float> out);

/// One position: k and v are [kv_heads, head_dim] f32; `record` has format.record_bytes().
void encode_kv(const KvFormat& format, std::span<const float> k, std::span<const float> v,
               std::span<std::byte> record);
void decode_kv(const KvFormat& format, std::span<const std::byte> record, std::span<float> k,
               std::span<float> v);

/// Root of the mean squared error, relative to the root of the mean square of `exact`.
double relative_rms_error(std::span<const float> exact, std::span<const float> approximate);

}  // namespace barge
