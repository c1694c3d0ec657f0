#include <algorithm>
#include <array>

#include "core/errors.h"
#include "model/jinja/builtins.h"
#include "model/jinja/interpreter.h"
#include "model/jinja/text_case.h"
#include "model/unicode.h"

namespace barge::jinja {
namespace {

using Text = std::string_view;

Text want_text(const Value& value, Text what) {
  const auto* text = value.get<Text>();
  if (text == nullptr) throw RequestError(concat(what, " wants a string, got ", kind_of(value)));
  return *text;
}

std::int64_t want_integer(const Value& value, std::int64_t otherwise, Text what) {
  if (value.is<Undefined>() || value.is<None>()) return otherwise;
  const auto* number = value.get<std::int64_t>();
  if (number == nullptr)
    throw RequestError(concat(what, " wants an integer, got ", kind_of(value)));
  return *number;
}

bool is_missing(const Value& value) { return value.is<Undefined>() || value.is<None>(); }

// The first character of `text` is one of `set`.
bool begins_with_any(Text text, Text set) {
  return find_text(set, text.substr(0, first_char(text).bytes)) != set.npos;
}

Text strip_some(Text text, const Value& chars, bool left, bool right) {
  if (is_missing(chars)) {
    if (left) text = strip_left(text);
    return right ? strip_right(text) : text;
  }
  const Text set = want_text(chars, "strip");
  while (left && !text.empty() && begins_with_any(text, set))
    text.remove_prefix(first_char(text).bytes);
  while (right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (text[last] & 0xC0) == 0x80) --last;
    if (!begins_with_any(text.substr(last), set)) break;
    text = text.substr(0, last);
  }
  return text;
}

Items split_at_spaces(Text text, std::int64_t most) {
  Items parts;
  for (text = strip_left(text); !text.empty(); text = strip_left(text)) {
    if (most >= 0 && std::ssize(parts) == most) {
      parts.emplace_back(strip_right(text));
      break;
    }
    std::size_t end = 0;
    while (end < text.size()) {
      const Utf8Char c = first_char(text.substr(end));
      if (c.status == Utf8Char::Status::kValid && is_space(c.code)) break;
      end += c.bytes;
    }
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

Value split(Interpreter& in, Text text, const Args& args) {
  const Items bound = args.bind("split", {"sep", "maxsplit"});
  const std::int64_t most = want_integer(bound[1], -1, "split");
  if (is_missing(bound[0])) return in.heap().list(split_at_spaces(text, most));
  const Text separator = want_text(bound[0], "split");
  if (separator.empty()) throw RequestError("split wants a separator that isn't empty");
  Items parts;
  std::size_t at = 0;
  while (most < 0 || std::ssize(parts) < most) {
    const std::size_t next = find_text(text, separator, at);
    if (next == text.npos) break;
    parts.emplace_back(text.substr(at, next - at));
    at = next + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return in.heap().list(std::move(parts));
}

Value rsplit(Interpreter& in, Text text, const Args& args) {
  const Items bound = args.bind("rsplit", {"sep", "maxsplit"});
  const std::int64_t most = want_integer(bound[1], -1, "rsplit");
  if (most < 0) return split(in, text, args);
  const Text separator = want_text(bound[0], "rsplit");
  if (separator.empty()) throw RequestError("rsplit wants a separator that isn't empty");
  Items parts;
  while (std::ssize(parts) < most) {
    in.charge(weight(text));
    const std::size_t at = text.rfind(separator);
    if (at == text.npos) break;
    parts.emplace_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.emplace_back(text);
  std::reverse(parts.begin(), parts.end());
  return in.heap().list(std::move(parts));
}

Value splitlines(Interpreter& in, Text text, const Args& args) {
  (void)args.bind("splitlines", {});
  Items lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.emplace_back(text.substr(0, end));
    const bool two = text.substr(end, 2) == "\r\n";
    text.remove_prefix(std::min(text.size(), end + (two ? 2 : 1)));
  }
  return in.heap().list(std::move(lines));
}

Value replace(Interpreter& in, Text text, const Args& args) {
  const Items bound = args.bind("replace", {"old", "new", "count"});
  const Text from = want_text(bound[0], "replace"), to = want_text(bound[1], "replace");
  std::int64_t left = want_integer(bound[2], -1, "replace");
  if (from.empty()) throw RequestError("replace of an empty string is not supported");
  std::string out;
  std::size_t at = 0;
  for (; left != 0; --left) {
    const std::size_t next = find_text(text, from, at);
    if (next == text.npos) break;
    in.heap().charge(next - at + to.size());
    out.append(text, at, next - at);
    out += to;
    at = next + from.size();
  }
  out += text.substr(at);
  return in.heap().string(std::move(out));
}

// startswith('a') or startswith(('a', 'b'))
Value has_end(Text text, const Args& args, Text name, bool at_start) {
  const Items bound = args.bind(name, {"prefix"});
  const auto fits = [&](const Value& value) {
    const Text part = want_text(value, name);
    if (part.size() > text.size()) return false;
    return (at_start ? text.substr(0, part.size()) : text.substr(text.size() - part.size())) ==
           part;
  };
  if (!bound[0].is<const List*>()) return fits(bound[0]);
  const Items parts = iterate(bound[0]);
  return std::any_of(parts.begin(), parts.end(), fits);
}

Value remove_end(Text text, const Args& args, Text name, bool at_start) {
  const Text part = want_text(args.bind(name, {"prefix"})[0], name);
  if (!truthy(has_end(text, args, name, at_start))) return text;
  return at_start ? text.substr(part.size()) : text.substr(0, text.size() - part.size());
}

Value find_part(Text text, const Args& args) {
  const std::size_t at = find_text(text, want_text(args.bind("find", {"sub"})[0], "find"));
  return at == text.npos ? std::int64_t{-1} : length(text.substr(0, at));
}

Value count_parts(Text text, const Args& args) {
  const Text part = want_text(args.bind("count", {"sub"})[0], "count");
  if (part.empty()) return length(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = find_text(text, part, at)) != text.npos; at += part.size())
    ++count;
  return count;
}

Value join(Interpreter& in, Text separator, const Args& args) {
  return apply_filter(in, "join", args.bind("join", {"iterable"})[0], {{separator}, {}});
}

Value convert(Interpreter& in, Text text, const Args& args, std::string (*change)(Text)) {
  (void)args.bind("this method", {});
  return in.heap().string(change(text));
}

struct TextMethod {
  Text name;
  Value (*call)(Interpreter& in, Text text, const Args& args);
};

constexpr auto kTextMethods = std::to_array<TextMethod>({
    {"capitalize", [](auto& in, Text t, auto& a) { return convert(in, t, a, to_capitalized); }},
    {"count", [](auto&, Text t, auto& a) { return count_parts(t, a); }},
    {"endswith", [](auto&, Text t, auto& a) { return has_end(t, a, "endswith", false); }},
    {"find", [](auto&, Text t, auto& a) { return find_part(t, a); }},
    {"join", [](auto& in, Text t, auto& a) { return join(in, t, a); }},
    {"lower", [](auto& in, Text t, auto& a) { return convert(in, t, a, to_lower); }},
    {"lstrip",
     [](auto&, Text t, auto& a) -> Value {
       return strip_some(t, a.bind("lstrip", {"chars"})[0], true, false);
     }},
    {"removeprefix", [](auto&, Text t, auto& a) { return remove_end(t, a, "removeprefix", true); }},
    {"removesuffix",
     [](auto&, Text t, auto& a) { return remove_end(t, a, "removesuffix", false); }},
    {"replace", replace},
    {"rsplit", rsplit},
    {"rstrip",
     [](auto&, Text t, auto& a) -> Value {
       return strip_some(t, a.bind("rstrip", {"chars"})[0], false, true);
     }},
    {"split", split},
    {"splitlines", splitlines},
    {"startswith", [](auto&, Text t, auto& a) { return has_end(t, a, "startswith", true); }},
    {"strip",
     [](auto&, Text t,
        auto& a) -> Value { return strip_some(t, a.bind("strip", {"chars"})[0], true, true); }},
    {"title", [](auto& in, Text t, auto& a) { return convert(in, t, a, to_title); }},
    {"upper", [](auto& in, Text t, auto& a) { return convert(in, t, a, to_upper); }},
});

Value call_dict_method(Interpreter& in, const Entries& entries, Text name, const Args& args,
                       bool& found) {
  found = true;
  if (name == "get") {
    const Items bound = args.bind("get", {"key", "default"});
    const auto* key = bound[0].get<Text>();
    const Value* value = key != nullptr ? find(entries, *key) : nullptr;
    if (value != nullptr) return *value;
    return bound[1].is<Undefined>() ? Value(None{}) : bound[1];
  }
  Items out;
  if (name == "keys" || name == "values" || name == "items") {
    (void)args.bind(name, {});
    for (const auto& [key, value] : entries)
      out.push_back(name == "keys"     ? Value(key)
                    : name == "values" ? value
                                       : in.heap().list({Value(key), value}, true));
    return in.heap().list(std::move(out));
  }
  found = false;
  return Undefined{name};
}

}  // namespace

Value call_method(Interpreter& interpreter, const Value& value, std::string_view name,
                  const Args& args) {
  if (const auto* text = value.get<std::string_view>()) {
    for (const TextMethod& method : kTextMethods)
      if (method.name == name) return method.call(interpreter, *text, args);
  }
  if (const auto* dict = value.get<const Dict*>()) {
    bool found = false;
    const Value result = call_dict_method(interpreter, (*dict)->entries, name, args, found);
    if (found) return result;
  }
  throw RequestError(concat("barge has no method '", name, "' of ", kind_of(value)));
}

}  // namespace barge::jinja
