#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace barge {

/// Deeper than any honest body; keeps what walks JSON's tree by recursion (dump, templates) off the
/// end of the stack.
inline constexpr int kMaxJsonDepth = 100;
/// Whether `text` nests deeper, as far as it is JSON.
bool is_too_deep(std::string_view text);
/// More than any honest body has. Each takes up to 100 bytes once it is read, if only one or two of
/// the text.
inline constexpr std::size_t kMaxJsonValues = 1'000'000;
/// Whether `text` may have more: its commas and opening brackets are counted.
bool has_too_many_values(std::string_view text);

/// "a string", "an integer", "null", ...
std::string_view type_name(const nlohmann::json& value);
/// "Invalid type for 'n': expected an integer, but got a string instead." `got` is type_name's.
std::string type_message(std::string_view param, std::string_view wanted, std::string_view got);

/// Reads the fields of a request's body. Null is as good as absent. Everything throws RequestError
/// with `param` and OpenAI's wording for a wrong type or a value out of range.
class BodyFields {
 public:
  /// `body` must be an object and outlive this.
  explicit BodyFields(const nlohmann::json& body) : body_(body) {}

  const nlohmann::json* find(const char* name) const;  // null: absent
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::int64_t> integer(const char* name, std::int64_t min, std::int64_t max) const;
  std::optional<double> number(const char* name, double min, double max) const;
  std::optional<std::string> string(const char* name) const;

 private:
  const nlohmann::json& body_;
};

/// The same for a value that isn't directly in the body; `param` names it.
std::int64_t checked_integer(const nlohmann::json& value, const std::string& param,
                             std::int64_t min, std::int64_t max);
double checked_number(const nlohmann::json& value, const std::string& param, double min,
                      double max);
[[noreturn]] void throw_type(const std::string& param, std::string_view wanted,
                             const nlohmann::json& got);
[[noreturn]] void throw_missing(const std::string& param);

}  // namespace barge
