#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/errors.h"
#include "model/jinja/builtins.h"
#include "model/jinja/interpreter.h"
#include "model/jinja/text_case.h"

namespace barge::jinja {
namespace {

using Input = const Value&;

bool given(Input value) { return !value.is<Undefined>(); }

std::string_view text_of(Input value, std::string_view otherwise) {
  const auto* text = value.get<std::string_view>();
  return text != nullptr ? *text : otherwise;
}

// "a.b.0" of a value.
Value attribute(Value value, std::string_view path) {
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    std::int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = !name.empty() && read.ptr == name.data() + name.size();
    value = get_item(value, is_index ? Value(index) : Value(name));
    if (dot == path.npos) return value;
    path.remove_prefix(dot + 1);
  }
}

Value join(Interpreter& in, Input value, const Args& args) {
  const Items bound = args.bind("join", {"d", "attribute"});
  const std::string separator = given(bound[0]) ? to_text(bound[0]) : "";
  const auto* path = bound[1].get<std::string_view>();
  std::string out;
  bool first = true;
  for (Input item : iterate(value)) {
    const std::string text = to_text(path != nullptr ? attribute(item, *path) : item);
    in.heap().charge(separator.size() + text.size());
    if (!first) out += separator;
    out += text;
    first = false;
  }
  return in.heap().string(std::move(out));
}

Value json(Interpreter& in, Input value, const Args& args) {
  const Items bound = args.bind("tojson", {"indent", "ensure_ascii", "separators", "sort_keys"});
  JsonStyle style;
  if (const auto* indent = bound[0].get<std::int64_t>()) {
    if (*indent > 16) throw RequestError(concat("tojson indents by at most 16, not ", *indent));
    style.indent = *indent;
    style.item_separator = ",";
  }
  style.ensure_ascii = given(bound[1]) && truthy(bound[1]);
  style.sort_keys = given(bound[3]) && truthy(bound[3]);
  if (given(bound[2]) && !bound[2].is<None>()) {
    const Items separators = iterate(bound[2]);
    if (separators.size() != 2) throw RequestError("tojson's separators must be two strings");
    style.item_separator = text_of(separators[0], style.item_separator);
    style.key_separator = text_of(separators[1], style.key_separator);
  }
  // indentation is at most 64 levels deep
  if (style.indent > 0) in.heap().charge(weight(value) * style.indent * 64);
  return in.heap().string(to_json(value, style));
}

Value default_value(Interpreter&, Input value, const Args& args) {
  const Items bound = args.bind("default", {"default_value", "boolean"});
  const bool use = value.is<Undefined>() || (truthy(bound[1]) && !truthy(value));
  if (!use) return value;
  return given(bound[0]) ? bound[0] : Value(std::string_view());
}

Value end_item(Interpreter&, Input value, const Args& args, bool first) {
  (void)args.bind(first ? "first" : "last", {});
  const Items items = iterate(value);
  if (items.empty()) return Undefined{first ? "the first item" : "the last item"};
  return first ? items.front() : items.back();
}

Value to_integer(Interpreter&, Input value, const Args& args) {
  const Items bound = args.bind("int", {"default"});
  if (const auto* real = value.get<double>())
    if (std::fabs(*real) < 9e18) return static_cast<std::int64_t>(*real);
  if (const auto* b = value.get<bool>()) return std::int64_t{*b};
  if (value.is<std::int64_t>()) return value;
  std::int64_t number = 0;
  const std::string text = to_text(value);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && read.ptr == text.data() + text.size() && read.ec == std::errc())
    return number;
  return given(bound[0]) ? bound[0] : Value(std::int64_t{0});
}

Value to_float(Interpreter&, Input value, const Args& args) {
  const Items bound = args.bind("float", {"default"});
  double number = 0;
  const std::string text = to_text(value);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && read.ptr == text.data() + text.size()) return number;
  return given(bound[0]) ? bound[0] : Value(0.0);
}

// map('filter', …), map(attribute='a', default=…)
Value map(Interpreter& in, Input value, const Args& args) {
  Items out;
  const Value* path = find(args.named, "attribute");
  const Value* preset = find(args.named, "default");
  Args rest = args;
  std::string_view filter;
  if (path == nullptr) {
    filter = args.positional.empty() ? "" : text_of(args.positional[0], "");
    if (!has_filter(filter)) throw RequestError(concat("barge has no filter '", filter, "'"));
    rest.positional.erase(rest.positional.begin());
  }
  for (Input item : iterate(value)) {
    in.charge(weight(item));
    Value mapped = path != nullptr ? attribute(item, text_of(*path, ""))
                                   : apply_filter(in, filter, item, rest);
    if (mapped.is<Undefined>() && preset != nullptr) mapped = *preset;
    out.push_back(mapped);
  }
  return in.heap().list(std::move(out));
}

// select('test', …), selectattr('attribute', 'test', …) and their opposites.
Value choose(Interpreter& in, Input value, const Args& args, bool by_attribute, bool keep) {
  Args rest = args;
  const auto shift = [&](std::string_view missing) {
    if (rest.positional.empty()) return missing;
    const std::string_view text = text_of(rest.positional[0], "");
    rest.positional.erase(rest.positional.begin());
    return text;
  };
  const std::string_view path = by_attribute ? shift("") : "";
  const std::string_view test = shift("");
  Items out;
  for (Input item : iterate(value)) {
    const Value subject = by_attribute ? attribute(item, path) : item;
    in.charge(weight(subject));
    const bool passes = test.empty() ? truthy(subject) : apply_test(test, subject, rest);
    if (passes == keep) out.push_back(item);
  }
  return in.heap().list(std::move(out));
}

Value items_of(Interpreter& in, Input value, const Args& args) {
  if (value.is<Undefined>()) return in.heap().list({});
  return call_method(in, value, "items", args);
}

Value reverse(Interpreter& in, Input value, const Args& args) {
  (void)args.bind("reverse", {});
  return get_slice(in.heap(), value, None{}, None{}, std::int64_t{-1});
}

Value unique(Interpreter& in, Input value, const Args& args) {
  (void)args.bind("unique", {});
  Items out;
  for (Input item : iterate(value)) {
    in.charge(weight(item) * (1 + std::ssize(out)));
    const auto same = [&](Input other) { return equal(item, other); };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(item);
  }
  return in.heap().list(std::move(out));
}

Value as_list(Interpreter& in, Input value, const Args& args) {
  (void)args.bind("list", {});
  return in.heap().list(iterate(value));
}

Value as_string(Interpreter& in, Input value, const Args& args) {
  (void)args.bind("string", {});
  return value.is<std::string_view>() ? value : in.heap().string(to_text(value));
}

Value absolute(Interpreter&, Input value, const Args& args) {
  (void)args.bind("abs", {});
  if (const auto* i = value.get<std::int64_t>()) return *i < 0 && *i != INT64_MIN ? -*i : *i;
  if (const auto* d = value.get<double>()) return std::fabs(*d);
  throw RequestError(concat("abs wants a number, got ", kind_of(value)));
}

Value indent(Interpreter& in, Input value, const Args& args) {
  const Items bound = args.bind("indent", {"width", "first", "blank"});
  const auto* width = bound[0].get<std::int64_t>();
  if (width != nullptr && (*width < 0 || *width > 256))
    throw RequestError(concat("indent takes 0 to 256 blanks, not ", *width));
  const std::string blanks(width != nullptr ? static_cast<std::size_t>(*width) : 4, ' ');
  const std::string text = to_text(value);
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool wanted = at == 0 ? truthy(bound[1]) : end > at || truthy(bound[2]);
    in.heap().charge(blanks.size() + end - at);
    if (at > 0) out += '\n';
    if (wanted) out += blanks;
    out.append(text, at, end - at);
    at = end + 1;
  }
  return in.heap().string(std::move(out));
}

// Filters that are a string's method by another or the same name.
template <const char* kMethod>
Value method(Interpreter& in, Input value, const Args& args) {
  const Value text = value.is<std::string_view>() ? value : in.heap().string(to_text(value));
  return call_method(in, text, kMethod, args);
}
constexpr char kStrip[] = "strip", kUpper[] = "upper", kLower[] = "lower", kTitle[] = "title",
               kCapitalize[] = "capitalize", kReplace[] = "replace";

struct KnownFilter {
  std::string_view name;
  Value (*apply)(Interpreter& in, Input value, const Args& args);
};

Value count(Interpreter&, Input value, const Args& args) {
  (void)args.bind("length", {});
  return length(value);
}

constexpr auto kFilters = std::to_array<KnownFilter>({
    {"abs", absolute},
    {"capitalize", method<kCapitalize>},
    {"count", count},
    {"d", default_value},
    {"default", default_value},
    {"first", [](auto& in, Input v, auto& args) { return end_item(in, v, args, true); }},
    {"float", to_float},
    {"indent", indent},
    {"int", to_integer},
    {"items", items_of},
    {"join", join},
    {"last", [](auto& in, Input v, auto& args) { return end_item(in, v, args, false); }},
    {"length", count},
    {"list", as_list},
    {"lower", method<kLower>},
    {"map", map},
    {"reject", [](auto& in, Input v, auto& args) { return choose(in, v, args, false, false); }},
    {"rejectattr", [](auto& in, Input v, auto& args) { return choose(in, v, args, true, false); }},
    {"replace", method<kReplace>},
    {"reverse", reverse},
    {"safe", as_string},  // nothing is escaped here
    {"select", [](auto& in, Input v, auto& args) { return choose(in, v, args, false, true); }},
    {"selectattr", [](auto& in, Input v, auto& args) { return choose(in, v, args, true, true); }},
    {"string", as_string},
    {"title", method<kTitle>},
    {"tojson", json},
    {"trim", method<kStrip>},
    {"unique", unique},
    {"upper", method<kUpper>},
});

const KnownFilter* find_filter(std::string_view name) {
  for (const KnownFilter& filter : kFilters)
    if (filter.name == name) return &filter;
  return nullptr;
}

}  // namespace

bool has_filter(std::string_view name) { return find_filter(name) != nullptr; }

Value apply_filter(Interpreter& interpreter, std::string_view name, const Value& value,
                   const Args& args) {
  const KnownFilter* filter = find_filter(name);
  if (filter == nullptr) throw RequestError(concat("barge has no filter '", name, "'"));
  return filter->apply(interpreter, value, args);
}

}  // namespace barge::jinja
