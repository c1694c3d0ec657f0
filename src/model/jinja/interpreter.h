#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "model/jinja/ast.h"
#include "model/jinja/value.h"

namespace barge::jinja {

/// What a rendering may use up, so that no template hangs or crashes the process.
struct Limits {
  std::int64_t steps = 2'000'000;  // an evaluated node, or 32 bytes of text looked at
  std::size_t output_bytes = std::size_t{16} << 20;
  std::size_t heap_bytes = std::size_t{64} << 20;
  int depth = 400;  // of nested evaluations, macros calling macros included
};

/// What raise_exception throws: the template's own words to the user.
class Raised : public RequestError {
 public:
  using RequestError::RequestError;
};

/// Runs the tree of a template once.
class Interpreter {
 public:
  Interpreter(Heap& heap, const Limits& limits) : heap_(heap), limits_(limits) {}

  /// Returns what the template prints. `variables` are its global names. Throws RequestError with
  /// the line.
  std::string run(const Body& body, const Entries& variables);

  [[nodiscard]] Heap& heap() { return heap_; }

  /// Functions that were looked up before, so that each is made once.
  [[nodiscard]] const Value* remembered(std::string_view name) const {
    return find(functions_, name);
  }
  const Value* remember(const Value& function) {
    return &functions_.emplace_back((*function.get<const Function*>())->name, function).second;
  }

  /// Counts work. Throws RequestError when the limit is reached.
  void charge(std::int64_t steps);

 private:
  enum class Flow : std::uint8_t { kNormal, kBreak, kContinue };
  class Depth;

  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute(const If& node);
  Flow execute(const For& node);
  void execute(const Set& node);
  void execute(const Macro& node);
  Items loop_items(const For& node);
  void enter_iteration(Namespace& loop, const Items& items, std::size_t index);
  std::string capture(const Body& body);
  Value call_macro(const Macro& node, const Args& args);
  void print(std::string_view text);

  void bind(const std::vector<std::string_view>& targets, const Value& value);
  Value lookup(std::string_view name);

  Value evaluate(const Expression& expression);
  Value evaluate(const Literal& node) { return node.value; }
  Value evaluate(const Name& node) { return lookup(node.name); }
  Value evaluate(const ListDisplay& node);
  Value evaluate(const DictDisplay& node);
  Value evaluate(const Unary& node);
  Value evaluate(const Arithmetic& node);
  Value evaluate(const Comparison& node);
  Value evaluate(const Logic& node);
  Value evaluate(const Conditional& node);
  Value evaluate(const Suffixed& node);

  Value apply(const Value& base, const Attribute& suffix);
  Value apply(const Value& base, const MethodCall& suffix);
  Value apply(const Value& base, const Call& suffix);
  Value apply(const Value& base, const Item& suffix);
  Value apply(const Value& base, const Slice& suffix);
  Value apply(const Value& base, const Filter& suffix);
  Value apply(const Value& base, const Test& suffix);
  Args evaluate(const Arguments& arguments);
  bool compares(Comparison::Op op, const Value& left, const Value& right);
  Value compute(Arithmetic::Op op, const Value& left, const Value& right);

  Heap& heap_;
  const Limits& limits_;
  std::string out_;
  Entries functions_;
  std::vector<Entries> frames_;  // [0]: global; one for each loop, macro and set block
  std::size_t first_frame_ = 0;  // of the macro that runs; older frames but [0] are hidden
  std::int64_t steps_ = 0;
  int depth_ = 0;
  int line_ = 0;
};

/// a[i] or a.i: Undefined where it isn't there. Throws RequestError where `base` is Undefined.
Value get_item(const Value& base, const Value& index);

/// a[start:stop:step] of a list or a string; Undefined or None: not given.
Value get_slice(Heap& heap, const Value& base, const Value& start, const Value& stop,
                const Value& step);

/// a in b.
bool contains(const Value& container, const Value& value);

}  // namespace barge::jinja
