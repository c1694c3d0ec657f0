#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace barge {

/// Parses a document that somebody else wrote. Throws FormatError, naming `source`, for what is
/// not JSON, is not an object, or is nested deeper than `max_depth`.
nlohmann::json parse_json_object(std::string_view text, const std::string& source,
                                 int max_depth = 16);

/// Typed access to the fields of one JSON object. Every getter throws FormatError, naming the
/// source, the field, what was wanted and got. A null counts as absent. Must not outlive the
/// object.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string source)
      : object_(&object), source_(std::move(source)) {}

  bool has(const char* key) const { return find(key) != nullptr; }
  int integer(const char* key) const;
  int integer(const char* key, int absent) const { return has(key) ? integer(key) : absent; }
  float number(const char* key) const;
  float number(const char* key, float absent) const { return has(key) ? number(key) : absent; }
  bool flag(const char* key, bool absent) const;
  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& absent) const {
    return has(key) ? text(key) : absent;
  }
  /// The fields of an inner object; nothing where it is absent.
  std::optional<JsonFields> object(const char* key) const;
  const nlohmann::json* find(const char* key) const;

  /// Throws for a key that is none of `known`: a misspelt field must not be ignored.
  void allow_only(std::initializer_list<std::string_view> known) const;
  [[noreturn]] void refuse(const char* key, const std::string& wanted) const;

 private:
  const nlohmann::json& need(const char* key, const char* wanted) const;

  const nlohmann::json* object_;
  std::string source_;
};

}  // namespace barge
