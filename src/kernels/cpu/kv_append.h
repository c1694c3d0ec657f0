#pragma once

#include <cstddef>

#include "quant/format.h"

namespace barge {

/// Encodes one position, k and v [kv_heads, head_dim] f32, into its record: the bytes that
/// encode_kv writes. Thread-safe.
void append_record(const KvFormat& format, const float* k, const float* v, std::byte* record);

}  // namespace barge
