#pragma once

#include <cstdint>
#include <span>

namespace barge::unicode {

/// `code` is canonically `first` followed by `second` (0: by nothing).
struct Decomposition {
  char32_t code, first, second;
};

/// Codes `first` to `last` have this canonical combining class (others: 0).
struct CombiningRange {
  char32_t first, last;
  std::uint8_t combining_class;
};

// Sorted by code; Hangul syllables, which follow from arithmetic, left out.
extern const std::span<const Decomposition> kComposed;  // compose again
extern const std::span<const Decomposition> kOneWay;    // never compose
extern const std::span<const CombiningRange> kCombining;

}  // namespace barge::unicode
