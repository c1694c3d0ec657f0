// Values as text: Python's str(), repr() and json.dumps().
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "core/errors.h"
#include "model/jinja/value.h"
#include "model/unicode.h"

namespace barge::jinja {
namespace {

// Python's repr: the shortest digits that read back, fixed from 1e-4 to below 1e16.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[400];
  const double size = std::fabs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string hex(const char* format, unsigned code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, code);
  return buffer;
}

std::string quoted(std::string_view text) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7F)
      out += hex("\\x%02x", byte);
    else
      out += c;
  }
  return out + quote;
}

std::string repr(const Value& value);

std::string repr_list(const List& list) {
  std::string out = list.is_tuple ? "(" : "[";
  for (const Value& item : list.items) out += (out.size() == 1 ? "" : ", ") + repr(item);
  if (list.is_tuple && list.items.size() == 1) out += ",";
  return out + (list.is_tuple ? ")" : "]");
}

std::string repr_entries(const Entries& entries) {
  std::string out = "{";
  for (const auto& [key, value] : entries)
    out += (out.size() == 1 ? "" : ", ") + quoted(key) + ": " + repr(value);
  return out + "}";
}

std::string repr(const Value& value) {
  const auto* text = value.get<std::string_view>();
  return text != nullptr ? quoted(*text) : to_text(value);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value) {
    if (const auto* s = value.get<std::string_view>()) {
      write_string(*s);
    } else if (const auto* b = value.get<bool>()) {
      out += *b ? "true" : "false";
    } else if (value.is<None>()) {
      out += "null";
    } else if (value.is<std::int64_t>() || value.is<double>()) {
      out += to_text(value);
    } else if (const auto* l = value.get<const List*>()) {
      write_all('[', (*l)->items, ']', [&](const Value& item) { write(item); });
    } else if (const auto* d = value.get<const Dict*>()) {
      Entries entries = (*d)->entries;
      if (style_.sort_keys)
        std::stable_sort(entries.begin(), entries.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
      write_all('{', entries, '}', [&](const auto& entry) {
        write_string(entry.first);
        out += style_.key_separator;
        write(entry.second);
      });
    } else {
      throw RequestError(concat("cannot write ", kind_of(value), " as JSON"));
    }
  }

  std::string out;

 private:
  template <typename Range, typename Write>
  void write_all(char open, const Range& range, char close, Write write_one) {
    out += open;
    ++level_;
    bool first = true;
    for (const auto& one : range) {
      if (!first) out += style_.item_separator;
      first = false;
      new_line();
      write_one(one);
    }
    --level_;
    if (!first) new_line();
    out += close;
  }

  void new_line() {
    if (style_.indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(style_.indent) * level_, ' ');
  }

  void write_string(std::string_view text) {
    out += '"';
    while (!text.empty()) {
      const Utf8Char c = first_char(text);
      const char byte = text[0];
      if (byte == '"' || byte == '\\')
        out += {'\\', byte};
      else if (byte == '\n')
        out += "\\n";
      else if (byte == '\r')
        out += "\\r";
      else if (byte == '\t')
        out += "\\t";
      else if (byte == '\b')
        out += "\\b";
      else if (byte == '\f')
        out += "\\f";
      else if (c.bytes == 1 && c.code < 0x20)
        out += hex("\\u%04x", c.code);
      else if (style_.ensure_ascii && (c.code >= 0x80))
        write_escaped(c.code);
      else
        out += text.substr(0, c.bytes);
      text.remove_prefix(c.bytes);
    }
    out += '"';
  }

  void write_escaped(char32_t code) {
    if (code < 0x10000) {
      out += hex("\\u%04x", code);
    } else {
      out += hex("\\u%04x", 0xD800 + ((code - 0x10000) >> 10));
      out += hex("\\u%04x", 0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }

  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string to_text(const Value& value) {
  if (const auto* s = value.get<std::string_view>()) return std::string(*s);
  if (value.is<Undefined>()) return {};
  if (value.is<None>()) return "None";
  if (const auto* b = value.get<bool>()) return *b ? "True" : "False";
  if (const auto* i = value.get<std::int64_t>()) return std::to_string(*i);
  if (const auto* d = value.get<double>()) return float_text(*d);
  if (const auto* l = value.get<const List*>()) return repr_list(**l);
  if (const auto* d = value.get<const Dict*>()) return repr_entries((*d)->entries);
  return concat("<", kind_of(value), ">");
}

std::string to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value);
  return std::move(writer.out);
}

}  // namespace barge::jinja
