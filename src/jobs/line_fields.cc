#include "jobs/line_fields.h"

#include <simdjson.h>

#include <array>
#include <new>
#include <span>

#include "jobs/body_fields.h"

namespace barge {
namespace {

namespace dom = simdjson::dom;
using Field = LineFields::Field;
using nlohmann::json;

enum class Text { kKept, kLeft };  // of a string

// A field of an object, by name.
struct Wanted {
  std::string_view name;
  Field* field;
  Text text = Text::kKept;
};

std::array<Wanted, 4> wanted_of_line(LineFields& out) {
  return {{{"custom_id", &out.custom_id},
           {"method", &out.method},
           {"url", &out.url},
           {"body", &out.body, Text::kLeft}}};
}
std::array<Wanted, 4> wanted_of_body(LineFields& out) {
  return {{{"model", &out.model},
           {"prompt", &out.prompt, Text::kLeft},
           {"messages", &out.messages, Text::kLeft},
           {"stream", &out.stream, Text::kLeft}}};
}

void read(const json& object, std::span<const Wanted> wanted) {
  for (const auto& [name, field, text] : wanted) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) continue;
    field->type = type_name(*found);
    if (found->is_string() && text == Text::kKept)
      field->text = found->get_ref<const std::string&>();
  }
}

std::string_view type_name(dom::element value) {
  switch (value.type()) {
    case dom::element_type::BOOL:
      return barge::type_name(false);
    case dom::element_type::INT64:
    case dom::element_type::UINT64:
      return barge::type_name(0);
    case dom::element_type::DOUBLE:
      return barge::type_name(0.5);
    case dom::element_type::STRING:
      return barge::type_name("");
    case dom::element_type::ARRAY:
      return barge::type_name(json::array());
    case dom::element_type::OBJECT:
      return barge::type_name(json::object());
    default:
      return {};  // null
  }
}

// The values of `wanted` into `values`; false: one is there twice.
bool read(dom::object object, std::span<const Wanted> wanted, std::span<dom::element> values) {
  unsigned seen = 0;  // a bit for each
  for (const auto [key, value] : object) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (key != wanted[i].name) continue;
      if (seen & (1u << i)) return false;
      seen |= 1u << i;
      values[i] = value;
      Field& field = *wanted[i].field;
      field.type = type_name(value);
      if (std::string_view text; wanted[i].text == Text::kKept && !value.get(text))
        field.text = text;
    }
  }
  return true;
}

}  // namespace

LineFields line_fields(const json& line) {
  LineFields out;
  out.is_object = line.is_object();
  if (!out.is_object) return out;
  read(line, wanted_of_line(out));
  const auto body = line.find("body");
  if (body == line.end() || !body->is_object()) return out;
  read(*body, wanted_of_body(out));
  if (const auto stream = body->find("stream"); stream != body->end() && stream->is_boolean())
    out.streams = stream->get<bool>();
  return out;
}

class LineScanner::Impl {
 public:
  Impl() {
    if (parser_.allocate(kFirstBytes, kMaxJsonDepth)) throw std::bad_alloc();
  }

  bool scan(std::string_view text, LineFields& out) {
    out = {};
    dom::element line;
    if (parser_.parse(text.data(), text.size()).get(line)) return false;
    dom::object object;
    out.is_object = !line.get(object);
    if (!out.is_object) return true;
    std::array<dom::element, 4> values;
    if (!read(object, wanted_of_line(out), values)) return false;
    if (!out.body.is_given() || values[3].get(object)) return true;
    if (!read(object, wanted_of_body(out), values)) return false;
    if (out.stream.is_given() && values[3].get(out.streams)) out.streams = false;
    return true;
  }

 private:
  static constexpr std::size_t kFirstBytes = 64 << 10;  // grows with the longest line

  dom::parser parser_;
};

LineScanner::LineScanner() : impl_(std::make_unique<Impl>()) {}
LineScanner::~LineScanner() = default;
LineScanner::LineScanner(LineScanner&&) noexcept = default;
LineScanner& LineScanner::operator=(LineScanner&&) noexcept = default;
bool LineScanner::scan(std::string_view text, LineFields& out) { return impl_->scan(text, out); }

}  // namespace barge
