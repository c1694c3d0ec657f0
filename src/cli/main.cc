#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/program.h"

namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

int run(int argc, char** argv) {
  CLI::App app;
  barge::make_program(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& e) {  // a command that did its work and failed
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongUsage;  // --help and --version come this way too
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "barge: %s\n", e.what());
  }
  return kFailed;
}
