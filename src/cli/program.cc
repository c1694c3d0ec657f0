#include "cli/program.h"

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace barge {

void make_program(CLI::App& app) {
  app.description("Runs bulk jobs on language models that are larger than the memory they get.");
  app.name("barge");
  app.set_version_flag("--version", std::string("barge ") + kVersion);
  app.require_subcommand(1);
  add_serve(app);
  add_run(app);
  add_plan(app);
  add_probe(app);
  add_pack(app);
  add_bench(app);
  add_tokenize(app);
}

}  // namespace barge
