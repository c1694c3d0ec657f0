// Barriers, warp operations and atomics of the emulated threads, which run one at a time: a plain
// read and write is atomic, and a thread gives way at nothing but these calls.
#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

namespace cuda_emulation {

using Where = std::source_location;

/// Combines what the lanes of a warp brought (`values`; of those in `lanes` only) into `results`.
/// `arguments` are the lanes' own, such as the lane to read from.
using Combine = void (*)(std::uint32_t lanes, const std::uint64_t* values, const int* arguments,
                         std::uint64_t* results);

/// Blocks the thread until all living lanes of `mask` have called it for the same `what` at the
/// same place; returns this lane's result.
std::uint64_t meet_lanes(const char* what, Combine combine, std::uint32_t mask, std::uint64_t value,
                         int argument, const Where& where);
/// Blocks until all living threads of the block came; returns how many brought true.
int meet_block(const char* what, bool value, const Where& where);
int lane();
void* dynamic_shared();
[[noreturn]] void fail(const char* what, const Where& where);

void combine_shuffle(std::uint32_t, const std::uint64_t*, const int*, std::uint64_t*);
void combine_ballot(std::uint32_t, const std::uint64_t*, const int*, std::uint64_t*);

template <typename T>
T shuffle(const char* what, unsigned mask, T value, int source, const Where& where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = meet_lanes(what, combine_shuffle, mask, bits, source, where);
  T result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
inline unsigned ballot(const char* what, unsigned mask, bool value, const Where& where) {
  return static_cast<unsigned>(meet_lanes(what, combine_ballot, mask, value, 0, where));
}
/// Where a shuffle of groups of `width` lanes reads; own lane where that is outside the group.
inline int in_group(int source, int width) {
  return source / width == lane() / width && source >= 0 ? source : lane();
}

}  // namespace cuda_emulation

inline void __syncthreads(cuda_emulation::Where where = cuda_emulation::Where::current()) {
  cuda_emulation::meet_block("__syncthreads", false, where);
}
inline int __syncthreads_count(int value,
                               cuda_emulation::Where where = cuda_emulation::Where::current()) {
  return cuda_emulation::meet_block("__syncthreads_count", value != 0, where);
}
inline int __syncthreads_or(int value,
                            cuda_emulation::Where where = cuda_emulation::Where::current()) {
  return cuda_emulation::meet_block("__syncthreads_or", value != 0, where) != 0;
}
inline int __syncthreads_and(int value,
                             cuda_emulation::Where where = cuda_emulation::Where::current()) {
  return cuda_emulation::meet_block("__syncthreads_and", value == 0, where) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffff,
                       cuda_emulation::Where where = cuda_emulation::Where::current()) {
  cuda_emulation::ballot("__syncwarp", mask, false, where);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              cuda_emulation::Where where = cuda_emulation::Where::current()) {
  const int first = cuda_emulation::lane() / width * width;
  return cuda_emulation::shuffle("__shfl_sync", mask, value, first + source % width, where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  cuda_emulation::Where where = cuda_emulation::Where::current()) {
  // Unlike the others it may read from lower groups, but not from higher ones.
  const int source = cuda_emulation::lane() ^ lanes;
  const int last = cuda_emulation::lane() / width * width + width - 1;
  return cuda_emulation::shuffle("__shfl_xor_sync", mask, value,
                                 source <= last ? source : cuda_emulation::lane(), where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                   cuda_emulation::Where where = cuda_emulation::Where::current()) {
  const int source = cuda_emulation::lane() + static_cast<int>(by);
  return cuda_emulation::shuffle("__shfl_down_sync", mask, value,
                                 cuda_emulation::in_group(source, width), where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                 cuda_emulation::Where where = cuda_emulation::Where::current()) {
  const int source = cuda_emulation::lane() - static_cast<int>(by);
  return cuda_emulation::shuffle("__shfl_up_sync", mask, value,
                                 cuda_emulation::in_group(source, width), where);
}
inline unsigned __ballot_sync(unsigned mask, int value,
                              cuda_emulation::Where where = cuda_emulation::Where::current()) {
  return cuda_emulation::ballot("__ballot_sync", mask, value != 0, where);
}
inline int __any_sync(unsigned mask, int value,
                      cuda_emulation::Where where = cuda_emulation::Where::current()) {
  return cuda_emulation::ballot("__any_sync", mask, value != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int value,
                      cuda_emulation::Where where = cuda_emulation::Where::current()) {
  return cuda_emulation::ballot("__all_sync", mask, value == 0, where) == 0;
}

inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] inline void __trap(cuda_emulation::Where where = cuda_emulation::Where::current()) {
  cuda_emulation::fail("__trap", where);
}

template <typename T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  const T old = *at;
  *at = value;
  return old;
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return atomicExch(at, static_cast<T>(*at + value));
}
template <typename T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return atomicExch(at, static_cast<T>(*at - value));
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return atomicExch(at, *at < value ? value : *at);
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return atomicExch(at, value < *at ? value : *at);
}
template <typename T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return atomicExch(at, *at | value);
}
template <typename T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return atomicExch(at, *at & value);
}
template <typename T>
T atomicXor(T* at, std::type_identity_t<T> value) {
  return atomicExch(at, *at ^ value);
}
