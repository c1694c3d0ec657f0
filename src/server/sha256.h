#pragma once

#include <string>
#include <string_view>

namespace barge {

/// SHA-256 (FIPS 180-4) in 64 hexadecimal digits. About 0.2 GB/s: for short secrets.
std::string sha256_hex(std::string_view bytes);

}  // namespace barge
