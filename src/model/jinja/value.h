#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace barge::jinja {

struct List;
struct Dict;
struct Namespace;
struct Function;

/// A name, an attribute or an item that isn't there; `what` names it for messages.
struct Undefined {
  std::string_view what;
};
struct None {};

/// What an expression evaluates to, with Python's meaning. Cheap to copy: text and containers live
/// in a `Heap`, in the template or in the caller's JSON, which must outlive it. Only namespaces
/// change.
struct Value : std::variant<Undefined, None, bool, std::int64_t, double, std::string_view,
                            const List*, const Dict*, Namespace*, const Function*> {
  using variant::variant;

  template <typename T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(*this);
  }
  template <typename T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(this);
  }
};

using Items = std::vector<Value>;
using Entries = std::vector<std::pair<std::string_view, Value>>;  // in the order of insertion

/// What a call hands over: f(1, 2, name=3).
struct Args {
  Items positional;
  Entries named;

  /// The arguments by the names of the parameters, Undefined where one wasn't given. Throws
  /// RequestError where there are more or others; `function` names the callee.
  [[nodiscard]] Items bind(std::string_view function,
                           std::initializer_list<std::string_view> parameters) const;
};

struct List {
  Items items;
  int depth;            // of nesting: 1 without containers inside
  std::int64_t weight;  // see `weight`
  bool is_tuple;        // prints with round brackets, else like a list
};
struct Dict {
  Entries entries;
  int depth;
  std::int64_t weight;
};
/// What `namespace()` makes: the only thing that a template can change.
struct Namespace {
  Entries entries;
};
struct Function {
  std::string_view name;
  std::function<Value(const Args&)> call;
};

/// The value of `key`, null if it isn't there.
const Value* find(const Entries& entries, std::string_view key);
void assign(Entries& entries, std::string_view key, Value value);

/// Owns what one rendering makes, until the end of the rendering: no value is freed before, so no
/// cycle leaks. Throws RequestError when it would hold more than its limit.
class Heap {
 public:
  explicit Heap(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  Value string(std::string text);
  /// Throw RequestError for containers nested more than 64 deep, so that no walk overflows the
  /// stack, and for those that weigh too much, as one can that contains itself twice, 60 times
  /// over.
  Value list(Items items, bool is_tuple = false);
  Value dict(Entries entries);
  Value name_space(Entries entries);
  Value function(std::string_view name, std::function<Value(const Args&)> call);

  /// Counts bytes that are about to be made.
  void charge(std::size_t bytes);

 private:
  std::size_t limit_bytes_, used_bytes_ = 0;
  std::deque<std::string> strings_;  // deques: addresses stay
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Function> functions_;
};

/// "string", "list", "undefined": for messages.
std::string_view kind_of(const Value& value);

/// What it costs to walk all of a value: one for each part, and one for every 32 bytes of text.
std::int64_t weight(const Value& value);

/// Where `part` first stands in `text` from `from` on; npos: nowhere. Linear, unlike std::string's.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);

bool truthy(const Value& value);

/// Python's ==: numbers by value whatever their type, containers by content.
bool equal(const Value& a, const Value& b);

/// Negative, 0 or positive as a < b, a == b, a > b. Throws RequestError where they have no order.
int compare(const Value& a, const Value& b);

/// What {{ value }} prints: Python's str(), and nothing for Undefined.
std::string to_text(const Value& value);

/// The number of items, characters or entries; throws RequestError for anything without a length.
std::int64_t length(const Value& value);

/// The items that `for` runs over. Of a string the characters, of a dictionary the keys.
Items iterate(const Value& value);

struct JsonStyle {
  std::int64_t indent = -1;  // -1: all in one line
  std::string_view item_separator = ", ", key_separator = ": ";
  bool ensure_ascii = false, sort_keys = false;
};

/// Python's json.dumps. Throws RequestError for what isn't JSON.
std::string to_json(const Value& value, const JsonStyle& style);

}  // namespace barge::jinja
