#include "model/jinja/builtins.h"
#include "model/jinja/interpreter.h"

namespace barge::jinja {
Value Interpreter::evaluate(const ListDisplay& node) {
  Items items;
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item));
  return heap_.list(std::move(items), node.is_tuple);
}

Value Interpreter::evaluate(const DictDisplay& node) {
  Entries entries;
  for (const auto& [key_node, value_node] : node.entries) {
    const Value key = evaluate(*key_node);
    const auto* text = key.get<std::string_view>();
    if (text == nullptr)
      throw RequestError(concat("the key of a dictionary must be a string, not ", kind_of(key)));
    assign(entries, *text, evaluate(*value_node));
  }
  return heap_.dict(std::move(entries));
}

Value Interpreter::evaluate(const Unary& node) {
  const Value value = evaluate(*node.operand);
  if (node.op == Unary::Op::kNot) return !truthy(value);
  const auto zero = Value(std::int64_t{0});
  using Op = Arithmetic::Op;
  return compute(node.op == Unary::Op::kMinus ? Op::kSubtract : Op::kAdd, zero, value);
}

bool Interpreter::compares(Comparison::Op op, const Value& left, const Value& right) {
  using Op = Comparison::Op;
  charge(weight(left) + weight(right));
  switch (op) {
    case Op::kEqual:
      return equal(left, right);
    case Op::kNotEqual:
      return !equal(left, right);
    case Op::kLess:
      return compare(left, right) < 0;
    case Op::kLessEqual:
      return compare(left, right) <= 0;
    case Op::kGreater:
      return compare(left, right) > 0;
    case Op::kGreaterEqual:
      return compare(left, right) >= 0;
    case Op::kIn:
      return contains(right, left);
    default:
      return !contains(right, left);
  }
}

// a < b < c means a < b and b < c.
Value Interpreter::evaluate(const Comparison& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, operand] : node.rest) {
    const Value right = evaluate(*operand);
    if (!compares(op, left, right)) return false;
    left = right;
  }
  return true;
}

Value Interpreter::evaluate(const Logic& node) {
  Value value;
  for (const ExpressionPtr& operand : node.operands) {
    value = evaluate(*operand);
    if (truthy(value) != node.is_and) break;
  }
  return value;
}

Value Interpreter::evaluate(const Conditional& node) {
  if (truthy(evaluate(*node.condition))) return evaluate(*node.yes);
  return node.no == nullptr ? Value(Undefined{"the missing else"}) : evaluate(*node.no);
}

Value Interpreter::evaluate(const Suffixed& node) {
  Value value = evaluate(*node.base);
  for (const Suffix& suffix : node.suffixes) {
    charge(1);
    value = std::visit([&](const auto& one) { return apply(value, one); }, suffix);
  }
  return value;
}

Args Interpreter::evaluate(const Arguments& arguments) {
  Args args;
  for (const ExpressionPtr& one : arguments.positional) args.positional.push_back(evaluate(*one));
  for (const auto& [name, one] : arguments.named) args.named.emplace_back(name, evaluate(*one));
  return args;
}

Value Interpreter::apply(const Value& base, const Attribute& suffix) {
  return get_item(base, suffix.name);
}

Value Interpreter::apply(const Value& base, const MethodCall& suffix) {
  const Args args = evaluate(suffix.arguments);
  const Value member = get_item(base, suffix.name);
  if (const auto* function = member.get<const Function*>()) return (*function)->call(args);
  charge(weight(base));
  return call_method(*this, base, suffix.name, args);
}

Value Interpreter::apply(const Value& base, const Call& suffix) {
  const Args args = evaluate(suffix.arguments);
  if (const auto* function = base.get<const Function*>()) return (*function)->call(args);
  if (const auto* undefined = base.get<Undefined>())
    throw RequestError(concat("'", undefined->what, "' is undefined, it can't be called"));
  throw RequestError(concat(kind_of(base), " can't be called"));
}

Value Interpreter::apply(const Value& base, const Item& suffix) {
  const Value index = evaluate(*suffix.index);
  if (base.is<std::string_view>()) charge(weight(base));
  return get_item(base, index);
}

Value Interpreter::apply(const Value& base, const Slice& suffix) {
  const auto part = [&](const ExpressionPtr& one) {
    return one == nullptr ? Value(None{}) : evaluate(*one);
  };
  const Value start = part(suffix.start), stop = part(suffix.stop), step = part(suffix.step);
  charge(weight(base));
  return get_slice(heap_, base, start, stop, step);
}

Value Interpreter::apply(const Value& base, const Filter& suffix) {
  charge(weight(base));
  return apply_filter(*this, suffix.name, base, evaluate(suffix.arguments));
}

Value Interpreter::apply(const Value& base, const Test& suffix) {
  const Args args = evaluate(suffix.arguments);
  charge(weight(base));
  return apply_test(suffix.name, base, args) != suffix.negated;
}

}  // namespace barge::jinja
