#include "model/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "core/errors.h"
#include "model/unicode.h"

namespace barge::jinja {
namespace {

constexpr int kMostNesting = 64;
constexpr std::int64_t kMostWeight = 10'000'000;

int depth_of(const Value& value) {
  if (const auto* list = value.get<const List*>()) return (*list)->depth;
  if (const auto* dict = value.get<const Dict*>()) return (*dict)->depth;
  return 0;
}

// Depth and weight of a container, from those of its parts.
struct Measure {
  int depth = 1;
  std::int64_t weight = 1;

  void add(const Value& value) {
    depth = std::max(depth, depth_of(value) + 1);
    weight += jinja::weight(value);
    if (depth > kMostNesting)
      throw RequestError(
          concat("lists or dictionaries are nested more than ", kMostNesting, " deep"));
    if (weight > kMostWeight) throw RequestError("a list or a dictionary would become too large");
  }
};

// Bools count as 0 and 1, as in Python.
bool as_number(const Value& value, double& number) {
  if (const auto* b = value.get<bool>())
    number = *b;
  else if (const auto* i = value.get<std::int64_t>())
    number = static_cast<double>(*i);
  else if (const auto* d = value.get<double>())
    number = *d;
  else
    return false;
  return true;
}

bool is_integer(const Value& value, std::int64_t& integer) {
  if (const auto* b = value.get<bool>())
    integer = *b;
  else if (const auto* i = value.get<std::int64_t>())
    integer = *i;
  else
    return false;
  return true;
}

bool equal_entries(const Entries& a, const Entries& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const auto& entry) {
    const Value* other = find(b, entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

}  // namespace

const Value* find(const Entries& entries, std::string_view key) {
  for (const auto& [name, value] : entries)
    if (name == key) return &value;
  return nullptr;
}

void assign(Entries& entries, std::string_view key, Value value) {
  for (auto& [name, old] : entries) {
    if (name != key) continue;
    old = value;
    return;
  }
  entries.emplace_back(key, value);
}

Items Args::bind(std::string_view function,
                 std::initializer_list<std::string_view> parameters) const {
  Items bound(parameters.size(), Undefined{});
  if (positional.size() > parameters.size())
    throw RequestError(concat(function, " takes at most ", parameters.size(), " arguments, got ",
                              positional.size()));
  std::copy(positional.begin(), positional.end(), bound.begin());
  for (const auto& [name, value] : named) {
    const auto at = std::find(parameters.begin(), parameters.end(), name);
    if (at == parameters.end())
      throw RequestError(concat(function, " has no argument called '", name, "'"));
    bound[at - parameters.begin()] = value;
  }
  return bound;
}

void Heap::charge(std::size_t bytes) {
  if (bytes > limit_bytes_ - used_bytes_)
    throw RequestError(concat("more than ", limit_bytes_, " bytes of memory are needed"));
  used_bytes_ += bytes;
}

Value Heap::string(std::string text) {
  charge(sizeof text + text.capacity());
  return std::string_view(strings_.emplace_back(std::move(text)));
}

Value Heap::list(Items items, bool is_tuple) {
  charge(sizeof(List) + items.size() * sizeof(Value));
  Measure measure;
  for (const Value& item : items) measure.add(item);
  return &std::as_const(
      lists_.emplace_back(List{std::move(items), measure.depth, measure.weight, is_tuple}));
}

Value Heap::dict(Entries entries) {
  charge(sizeof(Dict) + entries.size() * sizeof entries[0]);
  Measure measure;
  for (const auto& [key, value] : entries) {
    measure.add(key);
    measure.add(value);
  }
  return &std::as_const(
      dicts_.emplace_back(Dict{std::move(entries), measure.depth, measure.weight}));
}

Value Heap::name_space(Entries entries) {
  charge(sizeof(Namespace) + entries.size() * sizeof entries[0]);
  return &namespaces_.emplace_back(Namespace{std::move(entries)});
}

Value Heap::function(std::string_view name, std::function<Value(const Args&)> call) {
  charge(sizeof(Function));
  return &std::as_const(functions_.emplace_back(Function{name, std::move(call)}));
}

std::string_view kind_of(const Value& value) {
  static constexpr std::string_view kNames[] = {"undefined", "none",    "bool", "integer",
                                                "float",     "string",  "list", "dictionary",
                                                "namespace", "function"};
  return kNames[value.index()];
}

std::int64_t weight(const Value& value) {
  if (const auto* s = value.get<std::string_view>()) return 1 + std::ssize(*s) / 32;
  if (const auto* l = value.get<const List*>()) return (*l)->weight;
  if (const auto* d = value.get<const Dict*>()) return (*d)->weight;
  return 1;
}

bool truthy(const Value& value) {
  double number = 0;
  if (as_number(value, number)) return number != 0;
  if (const auto* s = value.get<std::string_view>()) return !s->empty();
  if (const auto* l = value.get<const List*>()) return !(*l)->items.empty();
  if (const auto* d = value.get<const Dict*>()) return !(*d)->entries.empty();
  return !value.is<Undefined>() && !value.is<None>();
}

bool equal(const Value& a, const Value& b) {
  std::int64_t i = 0, j = 0;
  if (is_integer(a, i) && is_integer(b, j)) return i == j;
  double x = 0, y = 0;
  if (as_number(a, x) && as_number(b, y)) return x == y;
  if (a.index() != b.index()) return false;
  if (a.is<Undefined>() || a.is<None>()) return true;
  if (const auto* s = a.get<std::string_view>()) return *s == *b.get<std::string_view>();
  if (const auto* l = a.get<const List*>())
    return std::equal((*l)->items.begin(), (*l)->items.end(),
                      (*b.get<const List*>())->items.begin(), (*b.get<const List*>())->items.end(),
                      equal);
  if (const auto* d = a.get<const Dict*>())
    return equal_entries((*d)->entries, (*b.get<const Dict*>())->entries);
  if (const auto* n = a.get<Namespace*>()) return *n == *b.get<Namespace*>();
  return *a.get<const Function*>() == *b.get<const Function*>();
}

int compare(const Value& a, const Value& b) {
  std::int64_t i = 0, j = 0;
  if (is_integer(a, i) && is_integer(b, j)) return i < j ? -1 : i > j;
  double x = 0, y = 0;
  if (as_number(a, x) && as_number(b, y)) return x < y ? -1 : x > y;
  const auto* s = a.get<std::string_view>();
  const auto* t = b.get<std::string_view>();
  if (s != nullptr && t != nullptr) return s->compare(*t);  // UTF-8 sorts by code points
  const auto* l = a.get<const List*>();
  const auto* m = b.get<const List*>();
  if (l == nullptr || m == nullptr)
    throw RequestError(concat("cannot order ", kind_of(a), " and ", kind_of(b)));
  const Items &p = (*l)->items, &q = (*m)->items;
  for (std::size_t k = 0; k < std::min(p.size(), q.size()); ++k)
    if (!equal(p[k], q[k])) return compare(p[k], q[k]);
  return p.size() < q.size() ? -1 : p.size() > q.size();
}

std::int64_t length(const Value& value) {
  if (const auto* s = value.get<std::string_view>())
    return std::count_if(s->begin(), s->end(), [](char byte) { return (byte & 0xC0) != 0x80; });
  if (const auto* l = value.get<const List*>()) return std::ssize((*l)->items);
  if (const auto* d = value.get<const Dict*>()) return std::ssize((*d)->entries);
  if (value.is<Undefined>()) return 0;
  throw RequestError(concat(kind_of(value), " has no length"));
}

Items iterate(const Value& value) {
  Items items;
  if (const auto* l = value.get<const List*>()) return (*l)->items;
  if (const auto* d = value.get<const Dict*>()) {
    for (const auto& entry : (*d)->entries) items.emplace_back(entry.first);
  } else if (const auto* s = value.get<std::string_view>()) {
    for (std::string_view rest = *s; !rest.empty();) {
      const int bytes = first_char(rest).bytes;
      items.emplace_back(rest.substr(0, bytes));
      rest.remove_prefix(bytes);
    }
  } else if (!value.is<Undefined>()) {
    throw RequestError(concat("cannot iterate over ", kind_of(value)));
  }
  return items;
}

}  // namespace barge::jinja
