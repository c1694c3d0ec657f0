#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace cuda_emulation {

/// xorshift64*: a few cycles a number, for a choice at each switch of threads.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {
    for (int i = 0; i < 4; ++i) (*this)();
  }

  std::uint32_t operator()() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<std::uint32_t>((state_ * 0x2545f4914f6cdd1du) >> 32);
  }
  /// In [0, count).
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>((std::uint64_t{(*this)()} * count) >> 32);
  }
  template <typename T>
  void shuffle(std::span<T> items) {
    for (auto i = static_cast<std::uint32_t>(items.size()); i > 1; --i)
      std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace cuda_emulation
