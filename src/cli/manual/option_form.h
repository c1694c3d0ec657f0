#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace barge {

/// How an option is written, as manual and completion need it.
struct OptionForm {
  std::vector<std::string> names;    // "-i", "--input"; a positional's: "MODEL"
  std::string value;                 // what follows: "FILE", "N"; empty: nothing does, or `choices`
  std::vector<std::string> choices;  // what may follow, if only these
  bool positional = false, required = false;
};

OptionForm form_of(const CLI::Option& option);

/// The command of `program` with this name, or the program itself for "barge". Throws ConfigError.
const CLI::App& command_of(const CLI::App& program, const std::string& name);

}  // namespace barge
