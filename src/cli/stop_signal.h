#pragma once

#include <atomic>

namespace barge {

/// From now on SIGINT and SIGTERM set the flag that is returned; a second one ends the process.
const std::atomic<bool>& stop_on_signal();

}  // namespace barge
