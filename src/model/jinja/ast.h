#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/jinja/value.h"

// A template as a tree. Chains (a + b + c, x.y[0]|trim, a or b or c) are lists, not nested nodes,
// so that the tree is never deeper than the source nests brackets and blocks, which the parser
// limits. Texts point into the source.
namespace barge::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string_view, ExpressionPtr>> named;
};

struct Literal {
  Value value;  // never a container
};
struct Name {
  std::string_view name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Unary {
  enum class Op : std::uint8_t { kNot, kMinus, kPlus } op;
  ExpressionPtr operand;
};
/// first op operand op operand …, from left to right.
struct Arithmetic {
  enum class Op : std::uint8_t {
    kAdd,
    kSubtract,
    kConcat,
    kMultiply,
    kDivide,
    kFloor,
    kModulo,
    kPower
  };
  ExpressionPtr first;
  std::vector<std::pair<Op, ExpressionPtr>> rest;
};
struct Comparison {
  enum class Op : std::uint8_t {
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kIn,
    kNotIn
  };
  ExpressionPtr first;
  std::vector<std::pair<Op, ExpressionPtr>> rest;
};
/// The first operand that decides, or the last.
struct Logic {
  bool is_and;
  std::vector<ExpressionPtr> operands;
};
struct Conditional {
  ExpressionPtr condition, yes, no;  // no: may be null
};

struct Attribute {
  std::string_view name;
};
struct MethodCall {
  std::string_view name;
  Arguments arguments;
};
struct Call {
  Arguments arguments;
};
struct Item {
  ExpressionPtr index;
};
struct Slice {
  ExpressionPtr start, stop, step;  // each may be null
};
struct Filter {
  std::string_view name;
  Arguments arguments;
};
struct Test {
  std::string_view name;
  bool negated;
  Arguments arguments;
};
using Suffix = std::variant<Attribute, MethodCall, Call, Item, Slice, Filter, Test>;
struct Suffixed {
  ExpressionPtr base;
  std::vector<Suffix> suffixes;
};

struct Expression {
  std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Arithmetic, Comparison, Logic,
               Conditional, Suffixed>
      node;
};

struct Statement;
using Body = std::vector<Statement>;

struct Text {
  std::string_view text;
};
struct Output {
  ExpressionPtr expression;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;  // a null condition: else
};
struct For {
  std::vector<std::string_view> targets;
  ExpressionPtr iterable, condition;  // condition: may be null
  Body body, otherwise;
};
struct Set {
  std::vector<std::string_view> targets;
  std::string_view attribute;  // set targets[0].attribute; empty: none
  ExpressionPtr value;         // null: the text of the body
  Body body;
};
struct Macro {
  std::string_view name;
  std::vector<std::pair<std::string_view, ExpressionPtr>> parameters;  // null: no default
  Body body;
};
struct Break {};
struct Continue {};
struct Block {  // {% generation %}: printed as it stands
  Body body;
};

struct Statement {
  int line;
  std::variant<Text, Output, If, For, Set, Macro, Break, Continue, Block> node;
};

}  // namespace barge::jinja
