#include "core/errors.h"
#include "model/jinja/builtins.h"
#include "model/jinja/interpreter.h"

namespace barge::jinja {
namespace {

Value range(Interpreter& in, const Args& args) {
  const Items bound = args.bind("range", {"start", "stop", "step"});
  std::int64_t numbers[3] = {0, 0, 1};
  for (std::size_t i = 0; i < args.positional.size(); ++i) {
    const auto* number = bound[i].get<std::int64_t>();
    if (number == nullptr)
      throw RequestError(concat("range wants integers, got ", kind_of(bound[i])));
    numbers[i] = *number;
  }
  if (args.positional.empty()) throw RequestError("range wants a number");
  if (args.positional.size() == 1) std::swap(numbers[0], numbers[1]);
  const auto [start, stop, step] = numbers;
  if (step == 0) throw RequestError("range's step is 0");
  Items items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    in.charge(1);
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return in.heap().list(std::move(items));
}

// namespace(a=1), namespace(dict, a=1); dict(a=1) likewise.
Entries entries_of(std::string_view function, const Args& args) {
  Entries entries;
  if (args.positional.size() > 1)
    throw RequestError(concat(function, " takes at most one argument without a name"));
  if (!args.positional.empty()) {
    const auto* dict = args.positional[0].get<const Dict*>();
    if (dict == nullptr)
      throw RequestError(
          concat(function, " wants a dictionary, got ", kind_of(args.positional[0])));
    entries = (*dict)->entries;
  }
  for (const auto& [name, value] : args.named) assign(entries, name, value);
  return entries;
}

Value raise(const Args& args) {
  throw Raised(to_text(args.bind("raise_exception", {"message"})[0]), "messages");
}

}  // namespace

const Value* find_function(Interpreter& interpreter, std::string_view name) {
  if (const Value* known = interpreter.remembered(name)) return known;
  Interpreter* in = &interpreter;
  Heap& heap = interpreter.heap();
  if (name == "range")
    return interpreter.remember(
        heap.function("range", [in](const Args& args) { return range(*in, args); }));
  if (name == "namespace")
    return interpreter.remember(heap.function("namespace", [in](const Args& args) {
      return in->heap().name_space(entries_of("namespace", args));
    }));
  if (name == "dict")
    return interpreter.remember(heap.function(
        "dict", [in](const Args& args) { return in->heap().dict(entries_of("dict", args)); }));
  if (name == "raise_exception")
    return interpreter.remember(heap.function("raise_exception", raise));
  return nullptr;
}

}  // namespace barge::jinja
