// What follows an operand: .name [item] (arguments) |filter, and "is test".
#include "core/errors.h"
#include "model/jinja/builtins.h"
#include "model/jinja/expression_parser.h"

namespace barge::jinja {

namespace {
using Kind = Token::Kind;
}

ExpressionPtr with_suffixes(ExpressionPtr base, std::vector<Suffix> suffixes) {
  if (suffixes.empty()) return base;
  return std::make_unique<Expression>(Expression{Suffixed{std::move(base), std::move(suffixes)}});
}

void ExpressionParser::access_suffixes(std::vector<Suffix>& suffixes) {
  while (true) {
    if (skip_operator(".")) {
      if (next_->kind == Kind::kInteger) {  // list.0
        suffixes.emplace_back(Item{number()});
        continue;
      }
      const std::string_view name = want_name("the name of an attribute");
      if (skip_operator("("))
        suffixes.emplace_back(MethodCall{name, arguments()});
      else
        suffixes.emplace_back(Attribute{name});
    } else if (skip_operator("[")) {
      suffixes.push_back(item());
    } else if (skip_operator("(")) {
      suffixes.emplace_back(Call{arguments()});
    } else {
      return;
    }
  }
}

void ExpressionParser::filter_suffixes(std::vector<Suffix>& suffixes) {
  while (true) {
    if (skip_operator("|")) {
      const std::string_view name = want_name("the name of a filter");
      if (!has_filter(name)) fail(concat("barge has no filter '", name, "'"));
      suffixes.emplace_back(Filter{name, skip_operator("(") ? arguments() : Arguments{}});
    } else if (skip_name("is")) {
      suffixes.push_back(test());
    } else if (skip_operator("(")) {
      suffixes.emplace_back(Call{arguments()});
    } else {
      return;
    }
  }
}

Suffix ExpressionParser::item() {
  ExpressionPtr parts[3];
  int part = 0;
  while (!is_operator("]")) {
    if (skip_operator(":")) {
      if (++part > 2) fail("a slice has at most three parts");
    } else {
      if (parts[part]) fail(concat("wanted ']', got '", next_->text, "'"));
      parts[part] = expression();
    }
  }
  want_operator("]");
  if (part > 0) return Slice{std::move(parts[0]), std::move(parts[1]), std::move(parts[2])};
  if (!parts[0]) fail("there is nothing between '[' and ']'");
  return Item{std::move(parts[0])};
}

Suffix ExpressionParser::test() {
  const bool negated = skip_name("not");
  const std::string_view name = want_name("the name of a test");
  if (!has_test(name)) fail(concat("barge has no test '", name, "'"));
  Arguments given;
  const Kind kind = next_->kind;
  const bool word = kind == Kind::kName && !is_name("else") && !is_name("or") && !is_name("and") &&
                    !is_name("is") && !is_name("if") && !is_name("not") && !is_name("in");
  if (skip_operator("(")) {
    given = arguments();
  } else if (word || kind == Kind::kString || kind == Kind::kInteger || kind == Kind::kFloat ||
             is_operator("[") || is_operator("{")) {
    std::vector<Suffix> suffixes;
    ExpressionPtr argument = primary();  // "is divisibleby 3"
    access_suffixes(suffixes);
    given.positional.push_back(with_suffixes(std::move(argument), std::move(suffixes)));
  }
  return Test{name, negated, std::move(given)};
}

Arguments ExpressionParser::arguments() {
  Arguments given;
  while (!skip_operator(")")) {
    if (!given.positional.empty() || !given.named.empty()) want_operator(",");
    if (skip_operator(")")) break;
    if (is_operator("*") || is_operator("**")) fail("f(*list) and f(**dict) are not supported");
    const bool named =
        next_->kind == Kind::kName && next_[1].kind == Kind::kOperator && next_[1].text == "=";
    if (named) {
      const std::string_view name = take().text;
      take();
      given.named.emplace_back(name, expression());
    } else {
      if (!given.named.empty()) fail("an argument without a name follows one with a name");
      given.positional.push_back(expression());
    }
  }
  return given;
}

}  // namespace barge::jinja
