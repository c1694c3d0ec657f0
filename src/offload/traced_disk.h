#pragma once

#include <memory>

#include "core/trace.h"
#include "offload/disk_backend.h"

namespace barge {

/// The same backend, which also tells `trace` when it reads and writes: a span from the moment at
/// which the first piece is under way until none is. `trace` outlives it.
std::unique_ptr<DiskBackend> make_traced_disk(std::unique_ptr<DiskBackend> backend, Trace& trace);

}  // namespace barge
