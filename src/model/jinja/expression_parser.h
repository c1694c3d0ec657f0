#pragma once

#include <string>

#include "model/jinja/ast.h"
#include "model/jinja/lexer.h"

namespace barge::jinja {

/// Reads expressions from a list of tokens: recursive descent with Jinja's precedences.
class ExpressionParser {
 public:
  explicit ExpressionParser(const Tokens& tokens) : next_(tokens.list.data()) {}

  /// A whole expression; with `conditional` false, one without "a if b else c" on top (a loop's
  /// iterable, which an "if" may follow).
  ExpressionPtr expression(bool conditional = true);

  /// "a, b" makes a list, as Python's tuples do.

  /// "a, b" makes a tuple.
  ExpressionPtr expression_list();

  [[nodiscard]] const Token& peek() const { return *next_; }
  const Token& take() { return next_->kind == Token::Kind::kEnd ? *next_ : *next_++; }
  [[nodiscard]] bool is_operator(std::string_view text) const {
    return next_->kind == Token::Kind::kOperator && next_->text == text;
  }
  [[nodiscard]] bool is_name(std::string_view text) const {
    return next_->kind == Token::Kind::kName && next_->text == text;
  }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void want_operator(std::string_view text);
  std::string_view want_name(std::string_view what);

  [[noreturn]] void fail(const std::string& what) const;

  /// Held while something nested is read; throws FormatError where it nests too deep.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExpressionPtr logic(bool is_and);
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr number();
  ExpressionPtr list_display();
  ExpressionPtr dict_display();
  ExpressionPtr parenthesis();
  void access_suffixes(std::vector<Suffix>& suffixes);
  void filter_suffixes(std::vector<Suffix>& suffixes);
  Suffix item();
  Suffix test();
  Arguments arguments();
  ExpressionPtr arithmetic(
      ExpressionPtr (ExpressionParser::*operand)(),
      std::initializer_list<std::pair<std::string_view, Arithmetic::Op>> operators);

  const Token* next_;
  int depth_ = 0;
};

/// `base` itself where there are no suffixes.
ExpressionPtr with_suffixes(ExpressionPtr base, std::vector<Suffix> suffixes);

}  // namespace barge::jinja
