#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "model/jinja/template.h"

namespace barge {

/// Turns a conversation into the text that a model was trained to continue. Immutable after
/// construction and thread-safe. The text spells the special tokens out: encode it with
/// {.add_special = false, .parse_special = true}.
class ChatTemplate {
 public:
  /// Throws FormatError, with the line, where `source` is not Jinja as barge knows it.
  explicit ChatTemplate(std::string source) : source_(std::move(source)), template_(source_) {}

  [[nodiscard]] const std::string& source() const { return source_; }

  struct Options {
    bool add_generation_prompt = true;  // end with the beginning of the assistant's answer
    std::string_view bos_token, eos_token;
    const nlohmann::ordered_json* variables =
        nullptr;  // more of them (tools, …): an object or null
  };

  /// `messages` is a list of {"role": …, "content": …}; the content is handed on as it is, so that
  /// parts must be joined before for templates that want a string. Prefer `ordered_json` where the
  /// template prints JSON: it keeps the order of keys. A template finds no clock (`strftime_now`
  /// is not defined): a prompt depends on nothing but its request.
  /// Throws RequestError where the template refuses the conversation or fails.
  template <typename Json>
  [[nodiscard]] std::string render(const Json& messages, const Options& options) const {
    jinja::Context context;
    context.set("messages", context.from_json(messages));
    return render_in(context, options);
  }

 private:
  [[nodiscard]] std::string render_in(jinja::Context& context, const Options& options) const;

  std::string source_;
  jinja::Template template_;
};

}  // namespace barge
