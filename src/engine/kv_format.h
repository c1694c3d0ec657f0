#pragma once

#include "model/config.h"
#include "quant/format.h"

namespace barge {

/// How a model's KV cache is stored at 4, 16 or 32 bits. Throws ConfigError for other numbers.
KvFormat kv_format_of(const ModelConfig& config, int kv_bits, int kv_group);

/// What attention multiplies products of queries and keys by.
float attention_scale(const ModelConfig& config);

}  // namespace barge
