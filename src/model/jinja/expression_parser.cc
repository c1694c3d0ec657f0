#include "model/jinja/expression_parser.h"

#include <charconv>

#include "core/errors.h"

namespace barge::jinja {
namespace {

using Kind = Token::Kind;

constexpr int kMostNesting = 60;

template <typename Node>
ExpressionPtr make(Node node) {
  return std::make_unique<Expression>(Expression{std::move(node)});
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (parser.depth_ >= kMostNesting)
    parser.fail(concat("nested more than ", kMostNesting, " deep"));
  ++parser.depth_;
}

void ExpressionParser::fail(const std::string& what) const {
  throw FormatError(concat("the chat template, line ", next_->line, ": ", what));
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void ExpressionParser::want_operator(std::string_view text) {
  if (!skip_operator(text)) fail(concat("wanted '", text, "', got '", next_->text, "'"));
}

std::string_view ExpressionParser::want_name(std::string_view what) {
  if (next_->kind != Kind::kName) fail(concat("wanted ", what, ", got '", next_->text, "'"));
  return take().text;
}

ExpressionPtr ExpressionParser::expression(bool conditional) {
  const Nesting nesting(*this);
  ExpressionPtr value = logic(false);
  if (conditional && skip_name("if")) {
    ExpressionPtr condition = logic(false), no;
    if (skip_name("else")) no = expression();
    value = make(Conditional{std::move(condition), std::move(value), std::move(no)});
    if (is_name("if")) fail("'a if b if c' is not supported; put brackets around one of them");
  }
  return value;
}

ExpressionPtr ExpressionParser::expression_list() {
  ExpressionPtr first = expression();
  if (!is_operator(",")) return first;
  ListDisplay list{{}, /*is_tuple=*/true};
  list.items.push_back(std::move(first));
  while (skip_operator(",")) {
    if (next_->kind != Kind::kName && next_->kind != Kind::kString &&
        next_->kind != Kind::kInteger && next_->kind != Kind::kFloat && !is_operator("(") &&
        !is_operator("[") && !is_operator("{") && !is_operator("-"))
      break;  // a comma at the end
    list.items.push_back(expression());
  }
  return make(std::move(list));
}

ExpressionPtr ExpressionParser::logic(bool is_and) {
  const auto operand = [&] { return is_and ? negation() : logic(true); };
  ExpressionPtr first = operand();
  const std::string_view word = is_and ? "and" : "or";
  if (!is_name(word)) return first;
  Logic chain{is_and, {}};
  chain.operands.push_back(std::move(first));
  while (skip_name(word)) chain.operands.push_back(operand());
  return make(std::move(chain));
}

ExpressionPtr ExpressionParser::negation() {
  if (!skip_name("not")) return comparison();
  const Nesting nesting(*this);
  return make(Unary{Unary::Op::kNot, negation()});
}

ExpressionPtr ExpressionParser::comparison() {
  using Op = Comparison::Op;
  static constexpr std::pair<std::string_view, Op> kOperators[] = {
      {"==", Op::kEqual},     {"!=", Op::kNotEqual}, {"<", Op::kLess},
      {"<=", Op::kLessEqual}, {">", Op::kGreater},   {">=", Op::kGreaterEqual}};
  Comparison chain{sum(), {}};
  while (true) {
    std::optional<Op> op;
    for (const auto& [text, meaning] : kOperators)
      if (!op && skip_operator(text)) op = meaning;
    if (!op && skip_name("in")) op = Op::kIn;
    if (!op && is_name("not") && next_[1].kind == Kind::kName && next_[1].text == "in") {
      take();
      take();
      op = Op::kNotIn;
    }
    if (!op) break;
    chain.rest.emplace_back(*op, sum());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(std::move(chain));
}

ExpressionPtr ExpressionParser::arithmetic(
    ExpressionPtr (ExpressionParser::*operand)(),
    std::initializer_list<std::pair<std::string_view, Arithmetic::Op>> operators) {
  Arithmetic chain{(this->*operand)(), {}};
  for (bool more = true; more;) {
    more = false;
    for (const auto& [text, op] : operators) {
      if (!skip_operator(text)) continue;
      chain.rest.emplace_back(op, (this->*operand)());
      more = true;
      break;
    }
  }
  return chain.rest.empty() ? std::move(chain.first) : make(std::move(chain));
}

ExpressionPtr ExpressionParser::sum() {
  using Op = Arithmetic::Op;
  return arithmetic(&ExpressionParser::concatenation, {{"+", Op::kAdd}, {"-", Op::kSubtract}});
}
ExpressionPtr ExpressionParser::concatenation() {
  return arithmetic(&ExpressionParser::product, {{"~", Arithmetic::Op::kConcat}});
}
ExpressionPtr ExpressionParser::product() {
  using Op = Arithmetic::Op;
  return arithmetic(
      &ExpressionParser::power,
      {{"*", Op::kMultiply}, {"/", Op::kDivide}, {"//", Op::kFloor}, {"%", Op::kModulo}});
}
ExpressionPtr ExpressionParser::power() {
  Arithmetic chain{unary(true), {}};
  while (skip_operator("**")) chain.rest.emplace_back(Arithmetic::Op::kPower, unary(true));
  return chain.rest.empty() ? std::move(chain.first) : make(std::move(chain));
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  ExpressionPtr value;
  if (is_operator("-") || is_operator("+")) {
    const Nesting nesting(*this);
    const auto op = take().text == "-" ? Unary::Op::kMinus : Unary::Op::kPlus;
    value = make(Unary{op, unary(false)});
  } else {
    value = primary();
  }
  std::vector<Suffix> suffixes;
  access_suffixes(suffixes);
  if (with_filters) filter_suffixes(suffixes);
  return with_suffixes(std::move(value), std::move(suffixes));
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = *next_;
  if (skip_operator("(")) return parenthesis();
  if (skip_operator("[")) return list_display();
  if (skip_operator("{")) return dict_display();
  switch (token.kind) {
    case Kind::kName:
      take();
      if (token.text == "true" || token.text == "True") return make(Literal{true});
      if (token.text == "false" || token.text == "False") return make(Literal{false});
      if (token.text == "none" || token.text == "None") return make(Literal{None{}});
      return make(Name{token.text});
    case Kind::kInteger:
    case Kind::kFloat:
      return number();
    case Kind::kString: {
      take();
      if (next_->kind != Kind::kString) return make(Literal{token.text});
      Arithmetic chain{make(Literal{token.text}), {}};  // 'a' 'b' is 'ab'
      while (next_->kind == Kind::kString)
        chain.rest.emplace_back(Arithmetic::Op::kConcat, make(Literal{take().text}));
      return make(std::move(chain));
    }
    default:
      fail(concat("wanted an expression, got '", token.text, "'"));
  }
}

ExpressionPtr ExpressionParser::number() {
  const Token& token = take();
  std::string digits;
  for (const char c : token.text)
    if (c != '_') digits += c;
  const char* end = digits.data() + digits.size();
  std::int64_t integer = 0;
  double real = 0;
  const bool is_integer = token.kind == Kind::kInteger;
  const auto read = is_integer ? std::from_chars(digits.data(), end, integer)
                               : std::from_chars(digits.data(), end, real);
  if (read.ec != std::errc() || read.ptr != end)
    fail(concat("the number ", token.text, " is too large"));
  return is_integer ? make(Literal{integer}) : make(Literal{real});
}

ExpressionPtr ExpressionParser::parenthesis() {
  if (skip_operator(")")) return make(ListDisplay{{}, /*is_tuple=*/true});
  ExpressionPtr inside = expression_list();
  want_operator(")");
  return inside;
}

ExpressionPtr ExpressionParser::list_display() {
  ListDisplay list;
  while (!skip_operator("]")) {
    if (!list.items.empty()) want_operator(",");
    if (skip_operator("]")) break;
    list.items.push_back(expression());
  }
  return make(std::move(list));
}

ExpressionPtr ExpressionParser::dict_display() {
  DictDisplay dict;
  while (!skip_operator("}")) {
    if (!dict.entries.empty()) want_operator(",");
    if (skip_operator("}")) break;
    ExpressionPtr key = expression();
    want_operator(":");
    dict.entries.emplace_back(std::move(key), expression());
  }
  return make(std::move(dict));
}

}  // namespace barge::jinja
