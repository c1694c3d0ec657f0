#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace barge {

/// Seconds from a file's creation to its end: from `value`, {"anchor": "created_at", "seconds": n},
/// that the field `name` ("expires_after") holds. Throws RequestError.
std::int64_t checked_lifetime(const nlohmann::json& value, const std::string& name);

}  // namespace barge
