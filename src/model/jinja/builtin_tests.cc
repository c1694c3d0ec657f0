#include <array>

#include "core/errors.h"
#include "model/jinja/builtins.h"
#include "model/jinja/interpreter.h"
#include "model/jinja/text_case.h"

namespace barge::jinja {
namespace {

using Operand = const Value&;

struct KnownTest {
  std::string_view name;
  bool (*check)(Operand value, Operand argument);
  bool wants_argument = false;
};

bool is_number(Operand v) { return v.is<std::int64_t>() || v.is<double>() || v.is<bool>(); }

std::int64_t whole(Operand v) {
  if (const auto* i = v.get<std::int64_t>()) return *i;
  throw RequestError(concat("wanted an integer, got ", kind_of(v)));
}

bool is_case(Operand v, std::string (*convert)(std::string_view)) {
  const std::string text = to_text(v);
  return convert(text) == text && to_upper(text) != to_lower(text);
}

constexpr auto kTests = std::to_array<KnownTest>({
    {"defined", [](Operand v, Operand) { return !v.is<Undefined>(); }},
    {"undefined", [](Operand v, Operand) { return v.is<Undefined>(); }},
    {"none", [](Operand v, Operand) { return v.is<None>(); }},
    {"boolean", [](Operand v, Operand) { return v.is<bool>(); }},
    {"true", [](Operand v, Operand) { return v.is<bool>() && *v.get<bool>(); }},
    {"false", [](Operand v, Operand) { return v.is<bool>() && !*v.get<bool>(); }},
    {"integer", [](Operand v, Operand) { return v.is<std::int64_t>(); }},
    {"float", [](Operand v, Operand) { return v.is<double>(); }},
    {"number", [](Operand v, Operand) { return is_number(v); }},
    {"string", [](Operand v, Operand) { return v.is<std::string_view>(); }},
    {"mapping", [](Operand v, Operand) { return v.is<const Dict*>(); }},
    {"sequence",
     [](Operand v, Operand) {
       return v.is<const List*>() || v.is<std::string_view>() || v.is<const Dict*>() ||
              v.is<Undefined>();
     }},
    {"iterable",
     [](Operand v, Operand) {
       return v.is<const List*>() || v.is<std::string_view>() || v.is<const Dict*>() ||
              v.is<Undefined>();
     }},
    {"callable", [](Operand v, Operand) { return v.is<const Function*>(); }},
    {"odd", [](Operand v, Operand) { return whole(v) % 2 != 0; }},
    {"even", [](Operand v, Operand) { return whole(v) % 2 == 0; }},
    {"lower", [](Operand v, Operand) { return is_case(v, to_lower); }},
    {"upper", [](Operand v, Operand) { return is_case(v, to_upper); }},
    {"divisibleby",
     [](Operand v, Operand a) {
       if (whole(a) == 0) throw RequestError("division by zero");
       return whole(a) == -1 || whole(v) % whole(a) == 0;
     },
     true},
    {"eq", [](Operand v, Operand a) { return equal(v, a); }, true},
    {"equalto", [](Operand v, Operand a) { return equal(v, a); }, true},
    {"sameas", [](Operand v, Operand a) { return v.index() == a.index() && equal(v, a); }, true},
    {"ne", [](Operand v, Operand a) { return !equal(v, a); }, true},
    {"lt", [](Operand v, Operand a) { return compare(v, a) < 0; }, true},
    {"lessthan", [](Operand v, Operand a) { return compare(v, a) < 0; }, true},
    {"le", [](Operand v, Operand a) { return compare(v, a) <= 0; }, true},
    {"gt", [](Operand v, Operand a) { return compare(v, a) > 0; }, true},
    {"greaterthan", [](Operand v, Operand a) { return compare(v, a) > 0; }, true},
    {"ge", [](Operand v, Operand a) { return compare(v, a) >= 0; }, true},
    {"in", [](Operand v, Operand a) { return contains(a, v); }, true},
});

const KnownTest* find_test(std::string_view name) {
  for (const KnownTest& test : kTests)
    if (test.name == name) return &test;
  return nullptr;
}

}  // namespace

bool has_test(std::string_view name) { return find_test(name) != nullptr; }

bool apply_test(std::string_view name, const Value& value, const Args& args) {
  const KnownTest* test = find_test(name);
  if (test == nullptr) throw RequestError(concat("barge has no test '", name, "'"));
  const std::size_t wanted = test->wants_argument ? 1 : 0;
  if (args.positional.size() != wanted || !args.named.empty())
    throw RequestError(concat("the test '", name, "' wants ", wanted, " arguments, got ",
                              args.positional.size() + args.named.size()));
  return test->check(value, wanted == 1 ? args.positional[0] : value);
}

}  // namespace barge::jinja
