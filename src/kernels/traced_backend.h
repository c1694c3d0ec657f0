#pragma once

#include <memory>

#include "core/trace.h"
#include "kernels/backend.h"

namespace barge {

/// The same device and kernels, which also tell `trace` what its streams do: copies, kernels, and
/// sweeps (from a first lookup to the last kernel before the next). `trace` outlives it and what it
/// makes.
std::unique_ptr<Backend> make_traced_backend(std::unique_ptr<Backend> backend, Trace& trace);

}  // namespace barge
