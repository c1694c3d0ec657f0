#pragma once

#include <cstddef>

namespace barge {

/// Lets the process have `wanted` files and sockets open at once, where the system's hard limit
/// allows it: the usual limit of 1,024 is there for programs that call select. Returns how many it
/// may have now. Thread-safe.
std::size_t allow_open_files(std::size_t wanted);

}  // namespace barge
