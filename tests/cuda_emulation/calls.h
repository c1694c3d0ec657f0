#pragma once

#include <optional>
#include <string>

#include "emulation.h"

namespace cuda_emulation {

/// Counts a call; what it must return at once, if it was made to fail or something failed before.
std::optional<cudaError_t> refuse(Call call);
/// The same for calls that nobody counts.
std::optional<cudaError_t> refuse();
/// For cudaGetLastError; `why` is what cudaGetErrorString says on this thread until the next one.
cudaError_t remember(cudaError_t error, const std::string& why = {});
const char* last_reason();

/// Whether a stream's or an event's handle lives; null streams do.
void add_handle(const void* handle);
bool remove_handle(const void* handle);
bool is_handle(const void* handle);

}  // namespace cuda_emulation
