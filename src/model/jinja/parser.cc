#include "model/jinja/parser.h"

#include <algorithm>

#include "core/errors.h"
#include "model/jinja/expression_parser.h"

namespace barge::jinja {
namespace {

using Kind = Token::Kind;

class Parser {
 public:
  explicit Parser(const Tokens& tokens) : in_(tokens) {}

  Body run() {
    Body body = until({});
    return body;
  }

 private:
  // The statements up to a block tag that begins with one of `ends`, which is read up to its name;
  // with no ends, up to the end of the template.
  Body until(std::initializer_list<std::string_view> ends) {
    const ExpressionParser::Nesting nesting(in_);
    Body body;
    while (true) {
      const Token& token = in_.take();
      switch (token.kind) {
        case Kind::kText:
          body.push_back({token.line, Text{token.text}});
          break;
        case Kind::kOutput:
          body.push_back({token.line, Output{in_.expression_list()}});
          if (in_.peek().kind != Kind::kOutputEnd) unexpected("}}");
          in_.take();
          break;
        case Kind::kBlock: {
          const std::string_view name = in_.want_name("the name of a tag");
          if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
            end_ = name;
            return body;
          }
          body.push_back({token.line, statement(name)});
          break;
        }
        default:
          if (ends.size() != 0) in_.fail(concat("the template ends before ", *(ends.end() - 1)));
          return body;
      }
    }
  }

  [[noreturn]] void unexpected(std::string_view wanted) {
    in_.fail(concat("wanted '", wanted, "', got '", in_.peek().text, "'"));
  }

  void close_tag() {
    if (in_.peek().kind != Kind::kBlockEnd) unexpected("%}");
    in_.take();
  }

  // The rest of a block up to and with its end tag.
  Body block(std::string_view end) {
    close_tag();
    Body body = until({end});
    if (end == "endmacro" && in_.peek().kind == Kind::kName) in_.take();  // {% endmacro name %}
    close_tag();
    return body;
  }

  decltype(Statement::node) statement(std::string_view name) {
    if (name == "if") return if_statement();
    if (name == "for") return for_statement();
    if (name == "set") return set_statement();
    if (name == "macro") return macro();
    if (name == "generation") return Block{block("endgeneration")};
    if (name == "break" || name == "continue") {
      if (loops_ == 0) in_.fail(concat(name, " stands outside of a loop"));
      close_tag();
      if (name == "break") return Break{};
      return Continue{};
    }
    in_.fail(concat("barge has no tag '", name, "'"));
  }

  If if_statement() {
    If result;
    ExpressionPtr condition = in_.expression_list();
    while (true) {
      close_tag();
      Body body = until({"elif", "else", "endif"});
      result.branches.emplace_back(std::move(condition), std::move(body));
      if (end_ == "endif") break;
      if (end_ == "elif") {
        condition = in_.expression_list();
        continue;
      }
      result.branches.emplace_back(nullptr, block("endif"));
      return result;
    }
    close_tag();
    return result;
  }

  std::vector<std::string_view> targets() {
    std::vector<std::string_view> names;
    const bool bracket = in_.skip_operator("(");
    do {
      names.push_back(in_.want_name("the name of a variable"));
    } while (in_.skip_operator(","));
    if (bracket) in_.want_operator(")");
    return names;
  }

  For for_statement() {
    For result;
    result.targets = targets();
    if (!in_.skip_name("in")) unexpected("in");
    result.iterable = in_.expression(/*conditional=*/false);
    if (in_.skip_name("if")) result.condition = in_.expression();
    if (in_.is_name("recursive")) in_.fail("recursive loops are not supported");
    close_tag();
    ++loops_;
    result.body = until({"else", "endfor"});
    --loops_;
    if (end_ == "else")
      result.otherwise = block("endfor");
    else
      close_tag();
    return result;
  }

  Set set_statement() {
    Set result;
    result.targets = targets();
    if (in_.skip_operator(".")) {
      if (result.targets.size() != 1) in_.fail("only one attribute can be set at once");
      result.attribute = in_.want_name("the name of an attribute");
    }
    if (in_.skip_operator("=")) {
      result.value = in_.expression_list();
      close_tag();
    } else {
      if (in_.is_operator("|")) in_.fail("filters on a set block are not supported");
      if (result.targets.size() != 1) unexpected("=");
      result.body = block("endset");
    }
    return result;
  }

  Macro macro() {
    Macro result;
    result.name = in_.want_name("the name of a macro");
    in_.want_operator("(");
    while (!in_.skip_operator(")")) {
      if (!result.parameters.empty()) in_.want_operator(",");
      if (in_.skip_operator(")")) break;
      const std::string_view name = in_.want_name("the name of a parameter");
      ExpressionPtr preset;
      if (in_.skip_operator("=")) preset = in_.expression();
      result.parameters.emplace_back(name, std::move(preset));
    }
    const int outer_loops = std::exchange(loops_, 0);
    result.body = block("endmacro");
    loops_ = outer_loops;
    return result;
  }

  ExpressionParser in_;
  std::string_view end_;  // the tag that ended the last body
  int loops_ = 0;
};

}  // namespace

Body parse(const Tokens& tokens) { return Parser(tokens).run(); }

}  // namespace barge::jinja
