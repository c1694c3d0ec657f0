#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/text_files.h"
#include "core/errors.h"
#include "model/chat_template.h"
#include "model/checkpoint.h"
#include "model/description.h"
#include "model/tokenizer.h"
#include "offload/pack.h"

namespace barge {
namespace {

TokenizerSpec tokenizer_of(const std::string& model) {
  if (!is_pack(model)) return read_tokenizer(model);
  const Pack pack(model);
  return description_from_json(pack.model(), model).tokenizer;
}

void tokenize(const Options& o) {
  const Tokenizer tokenizer(tokenizer_of(o.model));
  EncodeOptions encode;
  if (o.no_special) encode = {.add_special = false, .parse_special = false};
  std::string text;
  if (!o.chat.empty()) {
    const std::string source =
        o.chat_template.empty() ? tokenizer.chat_template() : read_text(o.chat_template);
    if (source.empty())
      throw ConfigError(concat(o.model, " has no chat template; give one with --chat-template"));
    const auto messages = nlohmann::ordered_json::parse(read_text(o.chat), nullptr, false);
    if (messages.is_discarded())
      throw FormatError(concat("--chat: ", o.chat.string(), " is not JSON"));
    text = ChatTemplate(source).render(
        messages, {.bos_token = tokenizer.bos_text(), .eos_token = tokenizer.eos_text()});
    encode.add_special = false;  // the template writes them itself
  } else {
    text = read_text(o.file.empty() ? "-" : o.file);
  }
  const std::vector<TokenId> ids = tokenizer.encode(text, encode);
  if (o.json) {
    nlohmann::json out{{"ids", ids}, {"pieces", nlohmann::json::array()}};
    for (const TokenId id : ids) out["pieces"].push_back(tokenizer.piece(id));
    if (!o.chat.empty()) out["text"] = text;
    // A piece may be a part of a character: then U+FFFD stands for it.
    std::cout << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  for (const TokenId id : ids)
    std::cout << id << '\t'
              << nlohmann::json(tokenizer.piece(id))
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n';
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto* command = app.add_subcommand("tokenize", "Print the token ids of a text");
  const auto o = std::make_shared<Options>();
  command->add_option("MODEL", o->model, "a model, or just its tokenizer")->required();
  command->add_option("-f,--file", o->file, "the text; - or nothing: standard input");
  command->add_option("--chat", o->chat, "a JSON file of messages instead of a text")
      ->check(CLI::ExistingFile);
  command->add_option("--chat-template", o->chat_template, "a Jinja file instead of the model's")
      ->check(CLI::ExistingFile);
  command->add_flag("--no-special", o->no_special,
                    "add no special token and read none in the text");
  command->add_flag("--json", o->json, "one object with ids[] and pieces[]");
  add_common_flags(*command);
  command->callback([command, o] {
    read_environment_and_config(*command);
    tokenize(*o);
  });
}

}  // namespace barge
