#include "server/lifetime.h"

#include "core/errors.h"
#include "jobs/body_fields.h"

namespace barge {
namespace {

constexpr std::int64_t kLeast = 60 * 60, kMost = 30 * 24 * 60 * 60;  // OpenAI's

}  // namespace

std::int64_t checked_lifetime(const nlohmann::json& value, const std::string& name) {
  if (!value.is_object()) throw_type(name, "an object", value);
  const auto field = [&](const char* key) -> const nlohmann::json& {
    const auto found = value.find(key);
    if (found == value.end()) throw_missing(name + '.' + key);
    return *found;
  };
  const nlohmann::json& anchor = field("anchor");
  if (!anchor.is_string()) throw_type(name + ".anchor", "a string", anchor);
  if (anchor != "created_at")
    throw RequestError(concat("Invalid value: ",
                              anchor.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                              ". Supported values are: 'created_at'."),
                       name + ".anchor", "invalid_value");
  return checked_integer(field("seconds"), name + ".seconds", kLeast, kMost);
}

}  // namespace barge
