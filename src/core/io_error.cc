#include "core/io_error.h"

#include <cerrno>
#include <cstring>

namespace barge {

void throw_io_error(const std::string& attempted, int error) {
  const std::string message = concat(attempted, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) throw DiskFull(message + "; free some disk space");
  throw IoError(message);
}

}  // namespace barge
