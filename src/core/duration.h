#pragma once

#include <cstdint>
#include <string_view>

namespace barge {

/// Seconds in "90s", "30m", "24h", "7d" or "4w": a positive whole number and its unit. Throws
/// ConfigError, naming `flag`, for anything else.
std::int64_t parse_duration(std::string_view text, std::string_view flag);

}  // namespace barge
