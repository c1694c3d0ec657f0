#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/commands.h"
#include "core/errors.h"

namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

int run(int argc, char** argv) {
  CLI::App app{"Runs bulk jobs on language models that are larger than the memory they get."};
  app.name("barge");
  app.set_version_flag("--version", BARGE_VERSION);
  app.require_subcommand(1);
  barge::add_serve(app);
  barge::add_run(app);
  barge::add_plan(app);
  barge::add_probe(app);
  barge::add_pack(app);
  barge::add_bench(app);
  barge::add_tokenize(app);
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
