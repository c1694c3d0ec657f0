#pragma once

#include <string>
#include <vector>

namespace barge {

/// What a machine can do, as `barge probe` measured it. Rates are per second.
struct Profile {
  /// Operations per second of a matrix product at so many rows (one multiply-add is two).
  struct MatrixRate {
    double rows = 0, ops = 0;
  };

  std::string machine;      // processor, threads, directory: what the numbers hold for
  bool unified = true;      // device memory is host memory
  double device_bytes = 0;  // that may be used
  double host_bytes = 0;
  double disk_bytes = 0;              // free in the directory
  double link_down = 0, link_up = 0;  // bytes, from and to pinned memory; 0 where unified
  double link_down_pageable = 0, link_up_pageable = 0;  // the same with ordinary memory
  double link_both = 0;                                 // bytes of both directions at once
  double overlap = 0;                    // of a copy and a product side by side: the longer one's
                                         // time alone / that of both; 1: the other was hidden
  double disk_read = 0, disk_write = 0;  // bytes, large requests, deep queue
  double host_copy = 0;                  // bytes read and written once each
  std::vector<MatrixRate> matrix;        // ascending rows, dense 16-bit or f32 as computed
  double dequantise = 0;                 // weights, 4-bit to the compute type
  double attention = 0;                  // operations (4 per head, key and dimension)

  /// Rate at `rows`, between the measured points; rows below the first are proportional.
  double matrix_ops(double rows) const;
};

std::string profile_to_json(const Profile& profile);
/// Throws FormatError, naming `source` and the key.
Profile profile_from_json(const std::string& text, const std::string& source);

}  // namespace barge
