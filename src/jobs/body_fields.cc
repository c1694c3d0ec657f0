#include "jobs/body_fields.h"

#include <cmath>

#include "core/errors.h"

namespace barge {
namespace {

using nlohmann::json;

template <typename Number>
[[noreturn]] void throw_range(const std::string& param, const char* kind, bool above, Number limit,
                              const json& got) {
  throw RequestError(
      concat("Invalid '", param, "': ", kind, above ? " above maximum" : " below minimum",
             " value. Expected a value ", above ? "<= " : ">= ", limit, ", but got ", got.dump(),
             " instead."),
      param, concat(kind, above ? "_above_max_value" : "_below_min_value"));
}

}  // namespace

std::string_view type_name(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number_integer()) return "an integer";
  if (value.is_number()) return "a decimal";
  if (value.is_string()) return "a string";
  return value.is_array() ? "an array" : "an object";
}

bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

bool has_too_many_values(std::string_view text) {
  if (text.size() < kMaxJsonValues) return false;
  std::size_t values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (!in_string && (c == ',' || c == '[' || c == '{')) ++values;
  }
  return values > kMaxJsonValues;
}

std::string type_message(std::string_view param, std::string_view wanted, std::string_view got) {
  return concat("Invalid type for '", param, "': expected ", wanted, ", but got ", got,
                " instead.");
}

void throw_type(const std::string& param, std::string_view wanted, const json& got) {
  throw RequestError(type_message(param, wanted, type_name(got)), param, "invalid_type");
}

void throw_missing(const std::string& param) {
  throw RequestError(concat("Missing required parameter: '", param, "'."), param,
                     "missing_required_parameter");
}

std::int64_t checked_integer(const json& value, const std::string& param, std::int64_t min,
                             std::int64_t max) {
  if (!value.is_number()) throw_type(param, "an integer", value);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(INT64_MAX))
    throw_range(param, "integer", true, max, value);
  if (!value.is_number_integer()) {  // 5.0 is 5
    const auto real = value.get<double>();
    if (real != std::floor(real)) throw_type(param, "an integer", value);
    // Beyond 64 bits numbers come rounded: -2^63 may be less.
    if (real < static_cast<double>(min) || real <= -0x1p63)
      throw_range(param, "integer", false, min, value);
    if (real > static_cast<double>(max) || real >= 0x1p63)
      throw_range(param, "integer", true, max, value);
  }
  const auto integer = value.get<std::int64_t>();
  if (integer < min) throw_range(param, "integer", false, min, value);
  if (integer > max) throw_range(param, "integer", true, max, value);
  return integer;
}

double checked_number(const json& value, const std::string& param, double min, double max) {
  if (!value.is_number()) throw_type(param, "a decimal", value);
  const auto number = value.get<double>();
  if (number < min) throw_range(param, "decimal", false, min, value);
  if (number > max) throw_range(param, "decimal", true, max, value);
  return number;
}

const json* BodyFields::find(const char* name) const {
  const auto found = body_.find(name);
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> BodyFields::boolean(const char* name) const {
  const json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw_type(name, "a boolean", *value);
  return value->get<bool>();
}

std::optional<std::int64_t> BodyFields::integer(const char* name, std::int64_t min,
                                                std::int64_t max) const {
  const json* value = find(name);
  if (!value) return std::nullopt;
  return checked_integer(*value, name, min, max);
}

std::optional<double> BodyFields::number(const char* name, double min, double max) const {
  const json* value = find(name);
  if (!value) return std::nullopt;
  return checked_number(*value, name, min, max);
}

std::optional<std::string> BodyFields::string(const char* name) const {
  const json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw_type(name, "a string", *value);
  return value->get<std::string>();
}

}  // namespace barge
