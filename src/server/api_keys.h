#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace barge {

/// The keys that clients may send, each of them an owner of files and batches. Immutable.
class ApiKeys {
 public:
  /// None: everybody may do everything. Throws ConfigError for an empty key.
  explicit ApiKeys(const std::vector<std::string>& keys);

  bool empty() const { return owners_.empty(); }
  /// Whose key an Authorization header brings; empty where none is asked for. Time doesn't depend
  /// on how much of a key is right. Throws RequestError (401).
  std::string owner(std::string_view authorization) const;

 private:
  std::vector<std::string> owners_;  // hashes of the keys
};

/// One key a line; blank lines and those that begin with # don't count. Throws ConfigError for a
/// file that can't be read or has none.
std::vector<std::string> read_keys(const std::filesystem::path& path);

}  // namespace barge
