#include "jobs/chat_messages.h"

#include <array>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "jobs/body_fields.h"

namespace barge {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

std::string joined_parts(const json& parts, const std::string& param) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = concat(param, '[', i, ']');
    if (!parts[i].is_object()) throw_type(name, "an object", parts[i]);
    const auto type = parts[i].find("type");
    if (type == parts[i].end()) throw_missing(name + ".type");
    if (*type != "text")
      throw RequestError(concat("Invalid value: ", type->dump(), ". Only 'text' is supported."),
                         name + ".type", "invalid_value");
    const auto value = parts[i].find("text");
    if (value == parts[i].end()) throw_missing(name + ".text");
    if (!value->is_string()) throw_type(name + ".text", "a string", *value);
    if (i > 0) text += '\n';
    text += value->get_ref<const std::string&>();
  }
  return text;
}

}  // namespace

json plain_messages(const json& messages) {
  if (!messages.is_array()) throw_type("messages", "an array", messages);
  if (messages.empty())
    throw RequestError("Invalid 'messages': empty array. Expected an array with minimum length 1.",
                       "messages", "empty_array");
  json plain = messages;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    json& message = plain[i];
    const std::string name = concat("messages[", i, ']');
    if (!message.is_object()) throw_type(name, "an object", message);
    const auto role = message.find("role");
    if (role == message.end()) throw_missing(name + ".role");
    if (!role->is_string()) throw_type(name + ".role", "a string", *role);
    bool known = false;
    for (const auto one : kRoles) known |= role->get_ref<const std::string&>() == one;
    if (!known)
      throw RequestError(concat("Invalid value: '", role->get_ref<const std::string&>(),
                                "'. Supported values are: 'system', 'developer', 'user', ",
                                "'assistant', 'tool' and 'function'."),
                         name + ".role", "invalid_value");
    const auto content = message.find("content");
    if (content == message.end()) {
      if (*role != "assistant") throw_missing(name + ".content");
      message["content"] = "";
    } else if (content->is_array()) {
      *content = joined_parts(*content, name + ".content");
    } else if (content->is_null()) {
      if (*role != "assistant")
        throw_type(name + ".content", "a string or an array of parts", *content);
      *content = "";
    } else if (!content->is_string()) {
      throw_type(name + ".content", "a string or an array of parts", *content);
    }
  }
  return plain;
}

}  // namespace barge
