#pragma once

#include <string>

namespace CLI {
class App;
}

namespace barge {

/// A bash script that completes the commands and flags of `program`, and values that are of a few;
/// file names elsewhere.
std::string bash_completion(const CLI::App& program);

}  // namespace barge
