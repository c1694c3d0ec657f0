#include "model/jinja/template.h"

#include "model/jinja/lexer.h"
#include "model/jinja/parser.h"
#include "model/unicode.h"

namespace barge::jinja {
namespace {

// Jinja reads every kind of line end as "\n".
std::string with_unix_lines(std::string source) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') continue;
      source[kept++] = '\n';
    } else {
      source[kept++] = source[i];
    }
  }
  source.resize(kept);
  return source;
}

}  // namespace

struct Template::Tree {
  explicit Tree(std::string text) : source(with_unix_lines(std::move(text))) {
    if (valid_prefix(source).size() != source.size())
      throw FormatError("the chat template is not UTF-8");
    tokens = tokenize(source);
    body = parse(tokens);
    tokens.list = {};  // the tree needs only the strings
  }

  std::string source;
  Tokens tokens;
  Body body;
};

Template::Template(std::string source) : tree_(std::make_unique<Tree>(std::move(source))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(Context& context) const {
  Interpreter interpreter(context.heap_, context.limits_);
  return interpreter.run(tree_->body, context.variables_);
}

}  // namespace barge::jinja
