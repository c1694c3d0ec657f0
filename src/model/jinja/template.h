#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "model/jinja/interpreter.h"

namespace barge::jinja {

/// The variables of one rendering and the heap that their values live in.
class Context {
 public:
  explicit Context(Limits limits = {}) : limits_(limits), heap_(limits.heap_bytes) {}

  [[nodiscard]] Heap& heap() { return heap_; }

  /// Both `name` and what `value` points to must outlive the rendering.
  void set(std::string_view name, Value value) { assign(variables_, name, value); }

  /// Any nlohmann JSON; its texts are not copied. Throws RequestError where it nests too deep.
  template <typename Json>
  Value from_json(const Json& json, int depth = 0);

 private:
  friend class Template;
  Limits limits_;
  Heap heap_;
  Entries variables_;
};

/// A Jinja template, with the settings that transformers has for chat templates. Immutable after
/// construction and thread-safe.
class Template {
 public:
  /// Throws FormatError, with the line, for what isn't Jinja and for what barge lacks of it.
  explicit Template(std::string source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// Throws RequestError where the template fails, raises an exception itself, or passes a limit.
  [[nodiscard]] std::string render(Context& context) const;

 private:
  struct Tree;
  std::unique_ptr<const Tree> tree_;
};

template <typename Json>
Value Context::from_json(const Json& json, int depth) {
  if (depth > 64) throw RequestError("JSON is nested more than 64 deep", "messages");
  if (json.is_null()) return None{};
  if (json.is_boolean()) return json.template get<bool>();
  if (json.is_number_integer()) return json.template get<std::int64_t>();
  if (json.is_number()) return json.template get<double>();
  if (json.is_string())
    return std::string_view(json.template get_ref<const typename Json::string_t&>());
  if (json.is_array()) {
    Items items;
    for (const auto& item : json) items.push_back(from_json(item, depth + 1));
    return heap_.list(std::move(items));
  }
  if (!json.is_object()) throw RequestError("this kind of JSON has no place in a template");
  Entries entries;
  for (auto it = json.begin(); it != json.end(); ++it)
    entries.emplace_back(it.key(), from_json(it.value(), depth + 1));
  return heap_.dict(std::move(entries));
}

}  // namespace barge::jinja
