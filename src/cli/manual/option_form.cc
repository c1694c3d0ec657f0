#include "cli/manual/option_form.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/flags.h"
#include "core/errors.h"

namespace barge {
namespace {

// Of CLI11's "TEXT:{auto,cuda,cpu}".
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> choices;
  std::istringstream list(type.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

// What CLI11 calls "INT:POSITIVE", "TEXT:FILE", or by the name that the flag gave it.
std::string value_in(const std::string& type) {
  const std::string first = type.substr(0, type.find(':'));
  if (first == "INT" || first == "UINT" || first == "FLOAT") return "N";
  return first == "TEXT" && type.ends_with(":FILE") ? "FILE" : first;
}

}  // namespace

OptionForm form_of(const CLI::Option& option) {
  OptionForm form;
  form.positional = option.get_positional();
  form.required = is_required(option);
  if (form.positional) {
    form.names = {option.get_name(/*positional=*/true)};
    return form;
  }
  for (const std::string& name : option.get_snames()) form.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) form.names.push_back("--" + name);
  if (option.get_items_expected_max() == 0) return form;
  const std::string type = option.get_type_name();
  form.choices = choices_in(type);
  if (form.choices.empty()) form.value = value_in(type);
  if (option.get_items_expected_max() > 1) form.value += " ...";
  return form;
}

const CLI::App& command_of(const CLI::App& program, const std::string& name) {
  if (name == program.get_name()) return program;
  for (const CLI::App* command : program.get_subcommands(nullptr))
    if (command->get_name() == name) return *command;
  throw ConfigError(concat("barge has no command ", name));
}

}  // namespace barge
