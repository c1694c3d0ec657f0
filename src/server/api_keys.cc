#include "server/api_keys.h"

#include <fstream>

#include "core/errors.h"
#include "server/sha256.h"

namespace barge {
namespace {

constexpr std::size_t kOwnerDigits = 32;

// What is on the disk of a key: enough to know it again, useless to send.
std::string owner_of(std::string_view key) {
  return sha256_hex(concat("barge key: ", key)).substr(0, kOwnerDigits);
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.empty()) throw ConfigError("--api-key: wanted a key, got an empty one");
    owners_.push_back(owner_of(key));
  }
}

std::string ApiKeys::owner(std::string_view authorization) const {
  if (owners_.empty()) return {};
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.empty())
    throw RequestError(
        "You didn't provide an API key. Send it in an Authorization header: "
        "'Authorization: Bearer YOUR_KEY'.",
        "", "invalid_api_key", 401);
  std::string found;
  if (authorization.starts_with(kScheme)) {
    // Hashes are compared whole, and all of them, so that a key can't be found letter by letter.
    const std::string sent = owner_of(authorization.substr(kScheme.size()));
    for (const std::string& owner : owners_) {
      unsigned char difference = 0;
      for (std::size_t i = 0; i < kOwnerDigits; ++i)
        difference |= static_cast<unsigned char>(owner[i] ^ sent[i]);
      if (difference == 0) found = owner;
    }
  }
  if (found.empty()) throw RequestError("Incorrect API key provided.", "", "invalid_api_key", 401);
  return found;
}

std::vector<std::string> read_keys(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw ConfigError(concat("--api-key-file: cannot read ", path.string()));
  std::vector<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
  }
  if (keys.empty())
    throw ConfigError(concat("--api-key-file: ", path.string(), " has no key; write one a line"));
  return keys;
}

}  // namespace barge
