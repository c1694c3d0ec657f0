#pragma once

namespace CLI {
class App;
}

namespace barge {

/// Each adds a subcommand to `app`; its callback does the work and throws what goes wrong.
void add_serve(CLI::App& app);
void add_run(CLI::App& app);
void add_plan(CLI::App& app);
void add_probe(CLI::App& app);
void add_pack(CLI::App& app);
void add_bench(CLI::App& app);
void add_tokenize(CLI::App& app);

}  // namespace barge
