#include "model/jinja/interpreter.h"

#include "model/jinja/builtins.h"

namespace barge::jinja {

/// Held while something nested is evaluated.
class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter.depth_ >= interpreter.limits_.depth)
      throw RequestError(
          concat("evaluation is nested more than ", interpreter.limits_.depth, " deep"));
    ++interpreter.depth_;
  }
  ~Depth() { --interpreter_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Interpreter& interpreter_;
};

std::string Interpreter::run(const Body& body, const Entries& variables) {
  frames_ = {variables};
  try {
    execute(body);
  } catch (const Raised&) {
    throw;
  } catch (const RequestError& e) {
    throw RequestError(concat("the chat template fails in line ", line_, ": ", e.what()),
                       "messages");
  }
  return std::move(out_);
}

void Interpreter::charge(std::int64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps)
    throw RequestError(concat("it takes more than ", limits_.steps, " steps"));
}

void Interpreter::print(std::string_view text) {
  if (text.size() > limits_.output_bytes - out_.size())
    throw RequestError(concat("it prints more than ", limits_.output_bytes, " bytes"));
  out_ += text;
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  const Depth depth(*this);
  for (const Statement& statement : body) {
    const Flow flow = execute(statement);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  charge(1);
  line_ = statement.line;
  if (const auto* text = std::get_if<Text>(&statement.node)) print(text->text);
  if (const auto* output = std::get_if<Output>(&statement.node)) {
    const Value value = evaluate(*output->expression);
    charge(weight(value));
    const auto* text = value.get<std::string_view>();
    print(text != nullptr ? *text : to_text(value));
  }
  if (const auto* node = std::get_if<If>(&statement.node)) return execute(*node);
  if (const auto* node = std::get_if<For>(&statement.node)) return execute(*node);
  if (const auto* node = std::get_if<Block>(&statement.node)) return execute(node->body);
  if (const auto* node = std::get_if<Set>(&statement.node)) execute(*node);
  if (const auto* node = std::get_if<Macro>(&statement.node)) execute(*node);
  if (std::holds_alternative<Break>(statement.node)) return Flow::kBreak;
  if (std::holds_alternative<Continue>(statement.node)) return Flow::kContinue;
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const If& node) {
  for (const auto& [condition, body] : node.branches)
    if (condition == nullptr || truthy(evaluate(*condition))) return execute(body);
  return Flow::kNormal;
}

// What the loop runs over: all items that its condition lets through, so that its length is known.
Items Interpreter::loop_items(const For& node) {
  const Value iterable = evaluate(*node.iterable);
  charge(weight(iterable));
  Items items = iterate(iterable);
  heap_.charge(items.size() * sizeof(Value));
  if (node.condition == nullptr) return items;
  Items kept;
  for (const Value& item : items) {
    frames_.emplace_back();
    bind(node.targets, item);
    if (truthy(evaluate(*node.condition))) kept.push_back(item);
    frames_.pop_back();
  }
  return kept;
}

void Interpreter::enter_iteration(Namespace& loop, const Items& items, std::size_t index) {
  const auto size = std::ssize(items);
  const auto at = static_cast<std::int64_t>(index);
  const auto set = [&](std::string_view name, Value value) { assign(loop.entries, name, value); };
  set("index", at + 1);
  set("index0", at);
  set("revindex", std::int64_t{size - at});
  set("revindex0", std::int64_t{size - at - 1});
  set("first", at == 0);
  set("last", at + 1 == size);
  set("length", std::int64_t{size});
  set("previtem", at > 0 ? items[index - 1] : Undefined{"loop.previtem"});
  set("nextitem", at + 1 < size ? items[index + 1] : Undefined{"loop.nextitem"});
}

Interpreter::Flow Interpreter::execute(const For& node) {
  const Items items = loop_items(node);
  const Value loop = heap_.name_space({});
  Namespace& state = **loop.get<Namespace*>();
  assign(state.entries, "cycle", heap_.function("cycle", [&state](const Args& args) -> Value {
    if (args.positional.empty()) throw RequestError("loop.cycle wants values");
    const auto* at = find(state.entries, "index0")->get<std::int64_t>();
    return args.positional[*at % args.positional.size()];
  }));
  for (std::size_t i = 0; i < items.size(); ++i) {
    charge(1);
    enter_iteration(state, items, i);
    frames_.emplace_back();
    assign(frames_.back(), "loop", loop);
    bind(node.targets, items[i]);
    const Flow flow = execute(node.body);
    frames_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  return items.empty() ? execute(node.otherwise) : Flow::kNormal;
}

std::string Interpreter::capture(const Body& body) {
  std::string outer = std::exchange(out_, {});
  execute(body);
  return std::exchange(out_, std::move(outer));
}

void Interpreter::execute(const Set& node) {
  Value value;
  if (node.value != nullptr) {
    value = evaluate(*node.value);
  } else {
    frames_.emplace_back();
    value = heap_.string(capture(node.body));
    frames_.pop_back();
  }
  if (node.attribute.empty()) return bind(node.targets, value);
  const Value target = lookup(node.targets[0]);
  const auto* space = target.get<Namespace*>();
  if (space == nullptr)
    throw RequestError(concat("cannot set ", node.targets[0], ".", node.attribute, ": ",
                              node.targets[0], " is not a namespace but ", kind_of(target)));
  heap_.charge(sizeof(Entries::value_type));
  assign((*space)->entries, node.attribute, value);
}

void Interpreter::execute(const Macro& node) {
  bind({node.name}, heap_.function(node.name, [this, &node](const Args& args) {
    return call_macro(node, args);
  }));
}

// Names of the caller's loops and blocks are hidden from a macro, the global ones are not.
Value Interpreter::call_macro(const Macro& node, const Args& args) {
  const Depth depth(*this);
  if (args.positional.size() > node.parameters.size())
    throw RequestError(concat("the macro ", node.name, " takes ", node.parameters.size(),
                              " arguments, got ", args.positional.size()));
  const std::size_t outer_first = std::exchange(first_frame_, frames_.size());
  frames_.emplace_back();
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const auto& [name, preset] = node.parameters[i];
    Value value = Undefined{name};
    if (i < args.positional.size())
      value = args.positional[i];
    else if (const Value* named = find(args.named, name))
      value = *named;
    else if (preset != nullptr)
      value = evaluate(*preset);
    assign(frames_.back(), name, value);
  }
  const Value result = heap_.string(capture(node.body));
  frames_.pop_back();
  first_frame_ = outer_first;
  return result;
}

void Interpreter::bind(const std::vector<std::string_view>& targets, const Value& value) {
  Entries& frame = frames_.back();
  if (targets.size() == 1) return assign(frame, targets[0], value);
  const Items parts = iterate(value);
  if (parts.size() != targets.size())
    throw RequestError(
        concat("cannot unpack ", parts.size(), " values into ", targets.size(), " names"));
  for (std::size_t i = 0; i < parts.size(); ++i) assign(frame, targets[i], parts[i]);
}

Value Interpreter::lookup(std::string_view name) {
  for (std::size_t i = frames_.size(); i > first_frame_; --i)
    if (const Value* value = find(frames_[i - 1], name)) return *value;
  if (const Value* value = find(frames_[0], name)) return *value;
  if (const Value* value = find_function(*this, name)) return *value;
  return Undefined{name};
}

Value Interpreter::evaluate(const Expression& expression) {
  const Depth depth(*this);
  charge(1);
  return std::visit([&](const auto& node) { return evaluate(node); }, expression.node);
}

}  // namespace barge::jinja
