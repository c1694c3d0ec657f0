#pragma once

namespace CLI {
class App;
}

namespace barge {

/// The project's version and the commit that it was built from, "0.1.0 (81e5006f4183)";
/// cmake/version.cmake writes it.
extern const char* const kVersion;

/// Makes `app`, which is new, the program `barge`, with all of its commands.
void make_program(CLI::App& app);

}  // namespace barge
