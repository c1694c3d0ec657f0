#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>

#include "core/dtype.h"
#include "offload/pack.h"

namespace barge {

/// What this machine can do at best, in units a second, measured by means that aren't barge's own.
/// 0: not known.
struct MachineLimits {
  std::map<std::int64_t, double> matrix_ops;  // of products, by their number of inputs
  /// Likewise of those that are not rounded to 8 bits, where matrix_ops are; else empty.
  std::map<std::int64_t, double> matrix_ops_in_16_bits;
  double memory_read = 0;                // bytes of the memory in which products are computed
  double disk_read = 0, disk_write = 0;  // bytes
  double link_down = 0, link_up = 0;     // bytes; 0 where there is no link

  double best_matrix_ops() const;
  double matrix_ops_of(std::int64_t inputs) const;  // the best one where it wasn't measured
  /// The same machine, were nothing rounded to 8 bits, as attention isn't.
  MachineLimits in_16_bits() const;
};

/// Bare oneDNN in products of so many inputs, in 8 bits or in the compute type: the best of a row
/// tile in the cache and of larger ones. About `seconds` in all.
std::map<std::int64_t, double> measure_matrix_ops(DType compute, int activation_bits, int threads,
                                                  std::span<const std::int64_t> inputs,
                                                  double seconds);
/// Threads that add up 64 MiB.
double measure_memory_read(int threads, double seconds);
/// Threads that read a pack's first file with pread, and that write a scratch file with pwrite, in
/// pieces of 1 MiB, past the page cache where the file system allows it. Throw IoError.
double measure_disk_read(const Pack& pack, double seconds);
double measure_disk_write(const std::filesystem::path& directory, double seconds);

}  // namespace barge
