#pragma once

#include "model/jinja/ast.h"
#include "model/jinja/lexer.h"

namespace barge::jinja {

/// Makes the tree of a template. `tokens` and their source must outlive it. Throws FormatError,
/// with the line, for what isn't Jinja and for what barge lacks of it, which the message names.
Body parse(const Tokens& tokens);

}  // namespace barge::jinja
