#include "offload/checksum.h"

#include <xxhash.h>

namespace barge {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(std::uint64_t checksum) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; checksum >>= 4) text[i] = "0123456789abcdef"[checksum & 15];
  return text;
}

}  // namespace barge
