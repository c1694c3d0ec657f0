// Writes what is said of barge's flags elsewhere than in --help; run by the build, not installed.
//   barge_manual page COMMAND FILE > barge-COMMAND.1   (COMMAND: barge for the program's own page)
//   barge_manual bash > barge
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/manual/completion.h"
#include "cli/manual/option_form.h"
#include "cli/manual/page.h"
#include "cli/program.h"
#include "core/errors.h"

int main(int argc, char** argv) {
  try {
    CLI::App program;
    barge::make_program(program);
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "page")
      std::cout << barge::manual_page(barge::command_of(program, words[1]), words[2]);
    else if (words.size() == 1 && words[0] == "bash")
      std::cout << barge::bash_completion(program);
    else
      throw barge::ConfigError("wants `page COMMAND FILE` or `bash`");
    return std::cout.flush() ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "barge_manual: %s\n", e.what());
  }
  return 1;
}
