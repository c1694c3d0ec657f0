#pragma once

#include <cstdlib>
#include <filesystem>

namespace barge {

/// tests/data, or where $BARGE_TEST_DATA says: a bundle's tests run away from the source tree.
inline std::filesystem::path test_data() {
  const char* const elsewhere = std::getenv("BARGE_TEST_DATA");
  return elsewhere != nullptr ? elsewhere : BARGE_TEST_DATA;
}

}  // namespace barge
