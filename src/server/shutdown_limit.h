#pragma once

#include <chrono>

namespace barge {

/// From now on the process has so long to end. After that it is ended where it stands, with exit
/// status 1: what was acknowledged is on the disk, and what was in flight is computed again by the
/// next one. To be called once, when a signal asked for the end.
void limit_shutdown(std::chrono::seconds timeout);

}  // namespace barge
