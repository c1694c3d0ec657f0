#include "cli/manual/completion.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "cli/manual/option_form.h"

namespace barge {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// What sets `flags`, and `values` where the flag before the word takes one.
std::string branch(const CLI::App& command) {
  std::vector<std::string> flags;
  std::string values;
  for (const CLI::Option* option : command.get_options()) {
    const OptionForm form = form_of(*option);
    if (form.positional) continue;
    flags.insert(flags.end(), form.names.begin(), form.names.end());
    if (!form.choices.empty())
      values += "        " + joined(form.names, "|") + ") values='" + joined(form.choices, " ") +
                "' ;;\n";
  }
  return "    " + command.get_name() + ")\n      flags='" + joined(flags, " ") +
         "'\n      case $before in\n" + values + "      esac ;;\n";
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  std::vector<std::string> first{"--help", "--version"};
  std::string branches;
  for (const CLI::App* command : program.get_subcommands(nullptr)) {
    first.push_back(command->get_name());
    branches += branch(*command);
  }
  return R"(# Bash completion of barge; made from the program's own flags.
_barge() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flags= values=
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    mapfile -t COMPREPLY < <(compgen -W ')" +
         joined(first, " ") + R"(' -- "$word")
    return
  fi
  case ${COMP_WORDS[1]} in
)" + branches +
         R"(  esac
  if [[ $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
  fi
}
complete -o default -F _barge barge
)";
}

}  // namespace barge
