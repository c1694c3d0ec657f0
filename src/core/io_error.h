#pragma once

#include <string>

#include "core/errors.h"

namespace barge {

/// There is no room on the disk: the same may go well when there is some again.
class DiskFull : public IoError {
 public:
  using IoError::IoError;
};

/// Throws DiskFull or IoError, "ATTEMPTED: what the system says", for an `errno`.
[[noreturn]] void throw_io_error(const std::string& attempted, int error);

}  // namespace barge
