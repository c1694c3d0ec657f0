#include "cli/manual/page.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "cli/manual/option_form.h"
#include "cli/program.h"
#include "core/errors.h"

namespace barge {
namespace {

// Text that troff shows as it stands: hyphens that can be copied, straight quotes.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      default:
        out += c;
    }
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

// -i, --input FILE
std::string heading(const OptionForm& form) {
  std::string text;
  for (const std::string& name : form.names)
    text += (text.empty() ? "" : ", ") + (form.positional ? italic(name) : bold(name));
  if (!form.value.empty()) text += " " + italic(form.value);
  for (std::size_t i = 0; i < form.choices.size(); ++i)
    text += (i == 0 ? " " : "|") + bold(form.choices[i]);
  return text;
}

std::string entry(const CLI::Option& option) {
  const OptionForm form = form_of(option);
  std::string text = ".TP\n" + heading(form) + "\n" + escaped(option.get_description());
  if (form.required) text += " (required)";
  if (!option.get_default_str().empty())
    text += " (default: " + escaped(option.get_default_str()) + ")";
  return text + "\n";
}

std::string options(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) text += entry(*option);
  for (const std::string& group : command.get_groups()) {
    std::string entries;
    for (const CLI::Option* option : command.get_options())
      if (option->get_group() == group && !option->get_positional()) entries += entry(*option);
    if (!entries.empty()) text += ".SS " + group + "\n" + entries;
  }
  return text;
}

std::string synopsis(const CLI::App& command) {
  if (command.get_parent() == nullptr)
    return bold(command.get_name()) + " " + italic("COMMAND") + " [" + italic("FLAGS") + "]\n";
  std::string text = bold(command.get_parent()->get_name() + " " + command.get_name());
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) text += " " + italic(option->get_name(true));
  return text + " [" + italic("FLAGS") + "]\n";
}

std::string commands(const CLI::App& program) {
  std::string text;
  for (const CLI::App* command : program.get_subcommands(nullptr))
    text += ".TP\n" + bold("barge-" + command->get_name()) + "(1)\n" +
            escaped(command->get_description()) + "\n";
  return text;
}

std::string directive(const CLI::App& command, const std::filesystem::path& file,
                      const std::string& line) {
  constexpr std::string_view kInclude = "@include ";
  if (line == "@synopsis") return synopsis(command);
  if (line == "@options") return options(command);
  if (line == "@commands") return commands(command);
  if (line.starts_with(kInclude))
    return manual_page(command, file.parent_path() / line.substr(kInclude.size()));
  throw FormatError(concat(file.string(), ": wants @synopsis, @options, @commands or @include FILE",
                           ", got ", line));
}

}  // namespace

std::string manual_page(const CLI::App& command, const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw IoError(concat("cannot read ", file.string()));
  constexpr std::string_view kVersionMark = "@version@";
  std::string page;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('@')) {
      page += directive(command, file, line);
      continue;
    }
    if (const std::size_t at = line.find(kVersionMark); at != std::string::npos)
      line.replace(at, kVersionMark.size(), kVersion);
    page += line + "\n";
  }
  return page;
}

}  // namespace barge
