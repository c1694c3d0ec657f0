#pragma once

#include "cli/options.h"

namespace CLI {
class App;
}

namespace barge {

/// Add the flags of one subject to `command`, which writes what it was given into `options`.
void add_format_flags(CLI::App& command, Options& options);   // bits and groups of weights
void add_compute_flags(CLI::App& command, Options& options);  // number formats of products
void add_model_flags(CLI::App& command, Options& options);    // with MODEL and both
void add_machine_flags(CLI::App& command, Options& options);
void add_policy_flags(CLI::App& command, Options& options);
void add_workload_flags(CLI::App& command, Options& options);

/// Adds --log-level and --config, and takes what the command line doesn't say from the environment
/// (BARGE_ and the flag's name in capitals), then from the JSON file of --config.
void add_common_flags(CLI::App& command);
/// Call after parsing. Throws ConfigError, naming variable or key.
void read_environment_and_config(CLI::App& command);

}  // namespace barge
