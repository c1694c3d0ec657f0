#pragma once

#include "cli/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace barge {

/// Add the flags of one subject to `command`, which writes what it was given into `options`.
void add_format_flags(CLI::App& command, Options& options);   // bits and groups of weights
void add_compute_flags(CLI::App& command, Options& options);  // number formats of products
void add_model_flags(CLI::App& command, Options& options);    // with MODEL and both
void add_machine_flags(CLI::App& command, Options& options);
void add_policy_flags(CLI::App& command, Options& options);
void add_workload_flags(CLI::App& command, Options& options);

/// Adds --log-level and --config; to be called last. Options that are required so far may then also
/// come from the environment or the file: `read_environment_and_config` looks for them.
void add_common_flags(CLI::App& command);
/// Whether it must be given, there or on the command line.
bool is_required(const CLI::Option& option);
/// Takes what the command line doesn't say from the environment (BARGE_ and the flag's name in
/// capitals), then from the JSON file of --config; MODEL is BARGE_MODEL and "model" there. Call
/// after parsing. Throws ConfigError, naming variable or key, and CLI::RequiredError.
void read_environment_and_config(CLI::App& command);

}  // namespace barge
