#pragma once

#include "quant/format.h"

namespace barge {

/// Bits of a number, scales and mins aside.
constexpr int bits_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::kQ4:
      return 4;
    case Encoding::kQ8:
      return 8;
    case Encoding::kF32:
      return 32;
    case Encoding::kF16:
    case Encoding::kBF16:
      break;
  }
  return 16;
}

}  // namespace barge
