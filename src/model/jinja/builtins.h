#pragma once

#include <string_view>

#include "model/jinja/value.h"

namespace barge::jinja {

class Interpreter;

// Filters, tests, methods and functions that templates can use. All but `has_…` throw RequestError
// for arguments that don't fit; `interpreter` gives the heap and counts the work.

bool has_filter(std::string_view name);
Value apply_filter(Interpreter& interpreter, std::string_view name, const Value& value,
                   const Args& args);

bool has_test(std::string_view name);
bool apply_test(std::string_view name, const Value& value, const Args& args);

/// value.name(args) of a string, a list or a dictionary.
Value call_method(Interpreter& interpreter, const Value& value, std::string_view name,
                  const Args& args);

/// range, namespace, dict, raise_exception. nullptr where there is no such function.
const Value* find_function(Interpreter& interpreter, std::string_view name);

}  // namespace barge::jinja
