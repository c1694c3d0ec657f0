#include "model/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/errors.h"

namespace barge {
namespace {

// A value as a message shows it: short, whatever it is.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMost = 60;
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

}  // namespace

nlohmann::json parse_json_object(std::string_view text, const std::string& source, int max_depth) {
  const auto limit_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > max_depth)
      throw FormatError(concat(source, ": JSON is nested more than ", max_depth, " levels deep"));
    return true;
  };
  try {
    auto value = nlohmann::json::parse(text, limit_depth);
    if (!value.is_object())
      throw FormatError(concat(source, ": wanted a JSON object, got ", shown(value)));
    return value;
  } catch (const nlohmann::json::exception& e) {
    throw FormatError(concat(source, ": not valid JSON: ", e.what()));
  }
}

const nlohmann::json* JsonFields::find(const char* key) const {
  const auto at = object_->find(key);
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

void JsonFields::refuse(const char* key, const std::string& wanted) const {
  const nlohmann::json* value = find(key);
  throw FormatError(concat(source_, ": field \"", key, "\": wanted ", wanted, ", got ",
                           value == nullptr ? "nothing" : shown(*value)));
}

const nlohmann::json& JsonFields::need(const char* key, const char* wanted) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) refuse(key, wanted);
  return *value;
}

int JsonFields::integer(const char* key) const {
  const nlohmann::json& value = need(key, "an integer");
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t{kMost})
    return static_cast<int>(value.get<std::uint64_t>());
  if (!value.is_number_integer() || value.is_number_unsigned() ||
      value.get<std::int64_t>() < -kMost)
    refuse(key, "an integer below 2^31");
  return static_cast<int>(value.get<std::int64_t>());
}

float JsonFields::number(const char* key) const {
  const nlohmann::json& value = need(key, "a number");
  if (!value.is_number()) refuse(key, "a number");
  const double number = value.get<double>();
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) refuse(key, "a finite number");
  return static_cast<float>(number);
}

bool JsonFields::flag(const char* key, bool absent) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string JsonFields::text(const char* key) const {
  const nlohmann::json& value = need(key, "a string");
  if (!value.is_string()) refuse(key, "a string");
  return value.get<std::string>();
}

std::optional<JsonFields> JsonFields::object(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object");
  return JsonFields(*value, concat(source_, ": ", key));
}

void JsonFields::allow_only(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object_->items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw FormatError(concat(source_, ": there is no field \"", key, "\"; is it misspelt?"));
}

}  // namespace barge
