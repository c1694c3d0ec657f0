#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace barge {

/// XXH3-64 of `bytes`: what panels of a pack are checked with.
std::uint64_t checksum(std::span<const std::byte> bytes);

/// 16 hexadecimal digits.
std::string checksum_text(std::uint64_t checksum);

}  // namespace barge
