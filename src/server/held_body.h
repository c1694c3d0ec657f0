#pragma once

#include <cstddef>

#include "core/errors.h"

namespace barge {

/// One request's share of the memory that bodies may take in all connections together. `all`, what
/// is taken, is the HTTP thread's, as this is, and must outlive it.
class HeldBody {
 public:
  HeldBody(std::size_t& all, std::size_t most) : all_(all), most_(most) {}
  ~HeldBody() { all_ -= bytes_; }
  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;

  /// Throws RequestError (503) where that is too much.
  void grow_to(std::size_t bytes) {
    if (bytes <= bytes_) return;
    if (bytes - bytes_ > most_ - all_)
      throw RequestError("The server is busy with other large requests. Please try again later.",
                         "", "", 503);
    all_ += bytes - bytes_;
    bytes_ = bytes;
  }

 private:
  std::size_t& all_;
  const std::size_t most_;
  std::size_t bytes_ = 0;
};

}  // namespace barge
