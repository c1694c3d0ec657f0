#include "model/chat_template.h"

namespace barge {

std::string ChatTemplate::render_in(jinja::Context& context, const Options& options) const {
  context.set("add_generation_prompt", options.add_generation_prompt);
  context.set("bos_token", options.bos_token);
  context.set("eos_token", options.eos_token);
  context.set("tools", jinja::None{});
  context.set("documents", jinja::None{});
  if (options.variables != nullptr && options.variables->is_object())
    for (auto it = options.variables->begin(); it != options.variables->end(); ++it)
      context.set(it.key(), context.from_json(it.value()));
  return template_.render(context);
}

}  // namespace barge
