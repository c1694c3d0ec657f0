// + - ~ * / // % ** with Python's meaning.
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/jinja/interpreter.h"

namespace barge::jinja {
namespace {

bool as_float(const Value& value, double& number) {
  if (const auto* i = value.get<std::int64_t>())
    number = static_cast<double>(*i);
  else if (const auto* b = value.get<bool>())
    number = *b;
  else if (const auto* d = value.get<double>())
    number = *d;
  else
    return false;
  return true;
}

bool as_integer(const Value& value, std::int64_t& number) {
  if (const auto* i = value.get<std::int64_t>())
    number = *i;
  else if (const auto* b = value.get<bool>())
    number = *b;
  else
    return false;
  return true;
}

std::string_view sign_of(Arithmetic::Op op) {
  static constexpr std::string_view kSigns[] = {"+", "-", "~", "*", "/", "//", "%", "**"};
  return kSigns[static_cast<int>(op)];
}

// Python's floor division: rounds down, whatever the signs.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Value compute_integers(Arithmetic::Op op, std::int64_t a, std::int64_t b) {
  using Op = Arithmetic::Op;
  std::int64_t result = 0;
  bool overflows = false;
  if (op == Op::kAdd) overflows = __builtin_add_overflow(a, b, &result);
  if (op == Op::kSubtract) overflows = __builtin_sub_overflow(a, b, &result);
  if (op == Op::kMultiply) overflows = __builtin_mul_overflow(a, b, &result);
  if (op == Op::kFloor || op == Op::kModulo) {
    if (b == 0) throw RequestError("division by zero");
    overflows = b == -1 && a == INT64_MIN;
    if (!overflows) result = floor_divide(a, b);
    if (!overflows && op == Op::kModulo) result = a - result * b;
  }
  if (op == Op::kPower) {
    result = 1;
    if (b > 63 && (a > 1 || a < -1)) overflows = true;
    for (std::int64_t i = 0; !overflows && i < (a * a <= 1 ? b & 1 : b); ++i)
      overflows = __builtin_mul_overflow(result, a, &result);
    if (b == 0)
      result = 1;
    else if (a == 0)
      result = 0;
    else if (a == -1 && b % 2 == 0)
      result = 1;
  }
  if (overflows)
    throw RequestError(concat(a, " ", sign_of(op), " ", b, " is larger than 64 bits hold"));
  return result;
}

Value compute_floats(Arithmetic::Op op, double a, double b) {
  using Op = Arithmetic::Op;
  if ((op == Op::kDivide || op == Op::kFloor || op == Op::kModulo) && b == 0)
    throw RequestError("division by zero");
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSubtract:
      return a - b;
    case Op::kMultiply:
      return a * b;
    case Op::kDivide:
      return a / b;
    case Op::kFloor:
      return std::floor(a / b);
    case Op::kModulo:
      return a - std::floor(a / b) * b;
    default:
      return std::pow(a, b);
  }
}

Value repeat(Heap& heap, const Value& value, std::int64_t times) {
  times = std::max<std::int64_t>(times, 0);
  const auto charge = [&](std::size_t bytes) {
    std::size_t all = 0;
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(times), &all)) all = SIZE_MAX;
    heap.charge(all);
  };
  if (const auto* text = value.get<std::string_view>()) {
    charge(text->size());
    std::string out;
    if (!text->empty())
      for (std::int64_t i = 0; i < times; ++i) out += *text;
    return heap.string(std::move(out));
  }
  const Items& items = (*value.get<const List*>())->items;
  charge(items.size() * sizeof(Value));
  Items out;
  if (!items.empty())
    for (std::int64_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  return heap.list(std::move(out));
}

}  // namespace

Value Interpreter::compute(Arithmetic::Op op, const Value& left, const Value& right) {
  using Op = Arithmetic::Op;
  std::int64_t i = 0, j = 0;
  const bool is_whole = op != Op::kDivide && as_integer(left, i) && as_integer(right, j) &&
                        !(op == Op::kPower && j < 0);
  if (is_whole) return compute_integers(op, i, j);
  double x = 0, y = 0;
  if (as_float(left, x) && as_float(right, y)) return compute_floats(op, x, y);
  const auto repeats = [](const Value& v) {
    return v.is<std::string_view>() || v.is<const List*>();
  };
  if (op == Op::kMultiply && repeats(left) && as_integer(right, j)) return repeat(heap_, left, j);
  if (op == Op::kMultiply && repeats(right) && as_integer(left, i)) return repeat(heap_, right, i);
  if (op == Op::kAdd && left.is<const List*>() && right.is<const List*>()) {
    Items items = (*left.get<const List*>())->items;
    const Items& more = (*right.get<const List*>())->items;
    items.insert(items.end(), more.begin(), more.end());
    charge(std::ssize(items));
    return heap_.list(std::move(items));
  }
  const auto name = [](const Value& value) {
    const auto* undefined = value.get<Undefined>();
    return undefined != nullptr ? concat("undefined '", undefined->what, "'")
                                : std::string(kind_of(value));
  };
  throw RequestError(concat("cannot compute ", name(left), " ", sign_of(op), " ", name(right)));
}

// Texts that are joined grow in one buffer: a chain costs its result, not the sum of its steps.
Value Interpreter::evaluate(const Arithmetic& node) {
  using Op = Arithmetic::Op;
  Value left = evaluate(*node.first);
  std::string joined;
  bool joining = false;
  const auto append = [&](const Value& value) {
    charge(weight(value));
    const std::string text = to_text(value);
    heap_.charge(text.size());
    joined += text;
  };
  for (const auto& [op, operand] : node.rest) {
    const Value right = evaluate(*operand);
    const bool texts = (joining || left.is<std::string_view>()) && right.is<std::string_view>();
    if (op == Op::kConcat || (op == Op::kAdd && texts)) {
      if (!joining) append(left);
      joining = true;
      append(right);
      continue;
    }
    if (joining) left = heap_.string(std::exchange(joined, {}));
    joining = false;
    left = compute(op, left, right);
  }
  return joining ? heap_.string(std::move(joined)) : left;
}

}  // namespace barge::jinja
