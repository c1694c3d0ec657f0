// Items, slices and membership of values.
#include <algorithm>
#include <cstring>

#include "core/errors.h"
#include "model/jinja/interpreter.h"
#include "model/unicode.h"

namespace barge::jinja {

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return text.npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return text.npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

Value get_item(const Value& base, const Value& index) {
  if (const auto* undefined = base.get<Undefined>())
    throw RequestError(concat("'", undefined->what, "' is undefined, it has no ", to_text(index)));
  const auto* key = index.get<std::string_view>();
  if (key != nullptr) {
    const Value* found = nullptr;
    if (const auto* dict = base.get<const Dict*>()) found = find((*dict)->entries, *key);
    if (const auto* space = base.get<Namespace*>()) found = find((*space)->entries, *key);
    return found != nullptr ? *found : Value(Undefined{*key});
  }
  const auto* at = index.get<std::int64_t>();
  if (at == nullptr) return Undefined{"an item"};
  const bool is_text = base.is<std::string_view>();
  if (!is_text && !base.is<const List*>()) return Undefined{"an item"};
  const std::int64_t size = length(base);
  const std::int64_t from_start = *at < 0 ? *at + size : *at;
  if (from_start < 0 || from_start >= size) return Undefined{"an item"};
  return is_text ? iterate(base)[from_start] : (*base.get<const List*>())->items[from_start];
}

namespace {

std::int64_t bound(const Value& value, std::int64_t missing, std::int64_t size, std::int64_t low,
                   std::int64_t high) {
  if (value.is<None>() || value.is<Undefined>()) return missing;
  const auto* at = value.get<std::int64_t>();
  if (at == nullptr) throw RequestError(concat("a slice wants integers, got ", kind_of(value)));
  return std::clamp(*at < 0 ? *at + size : *at, low, high);
}

}  // namespace

Value get_slice(Heap& heap, const Value& base, const Value& start, const Value& stop,
                const Value& step) {
  const bool is_text = base.is<std::string_view>();
  if (!is_text && !base.is<const List*>())
    throw RequestError(concat("cannot take a slice of ", kind_of(base)));
  const Items items = iterate(base);
  const std::int64_t size = std::ssize(items);
  const std::int64_t stride = step.is<None>() ? 1 : bound(step, 1, 0, INT32_MIN, INT32_MAX);
  if (stride == 0) throw RequestError("the step of a slice is 0");
  const std::int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const std::int64_t from = bound(start, stride > 0 ? 0 : high, size, low, high);
  const std::int64_t to = bound(stop, stride > 0 ? high : low, size, low, high);
  Items kept;
  for (std::int64_t i = from; stride > 0 ? i < to : i > to; i += stride) kept.push_back(items[i]);
  if (!is_text) return heap.list(std::move(kept));
  std::string text;
  for (const Value& item : kept) text += *item.get<std::string_view>();
  return heap.string(std::move(text));
}

bool contains(const Value& container, const Value& value) {
  const auto* key = value.get<std::string_view>();
  if (const auto* text = container.get<std::string_view>()) {
    if (key == nullptr)
      throw RequestError(concat("'in' a string wants a string, got ", kind_of(value)));
    return find_text(*text, *key) != text->npos;
  }
  if (const auto* dict = container.get<const Dict*>())
    return key != nullptr && find((*dict)->entries, *key) != nullptr;
  if (const auto* list = container.get<const List*>())
    return std::any_of((*list)->items.begin(), (*list)->items.end(),
                       [&](const Value& item) { return equal(item, value); });
  if (container.is<Undefined>()) return false;
  throw RequestError(
      concat("'in' wants a list, a dictionary or a string, got ", kind_of(container)));
}

}  // namespace barge::jinja
