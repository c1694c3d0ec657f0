#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/device.h"
#include "kernels/backend.h"
#include "quant/format.h"

namespace barge {

/// Kernels of one device, run on zeros and timed. Internal to the probe; for one thread. What is
/// timed takes other bytes each time, so that they come from memory as a model's do.
class TimedOperations {
 public:
  /// What attention is timed with: sequences, each of so many keys.
  static constexpr int kSequences = 16, kKeys = 512, kKvHeads = 4, kHeadDim = 64;

  /// `seconds`: about how long all that is timed may take together. `backend` must outlive this.
  TimedOperations(Backend& backend, const KernelLimits& limits, double seconds);

  Device& device() const { return device_; }
  Kernels& kernels() const { return *kernels_; }

  /// [rows, cols] of numbers that any operation can work on, in device memory.
  Buffer numbers(std::int64_t rows, std::int64_t cols, DType dtype) const;

  /// Products [rows, inputs] · [inputs, outputs], one panel of weights after the other.
  class Product {
   public:
    /// `timed` must outlive this.
    Product(const TimedOperations& timed, const WeightFormat& format, int inputs, int outputs,
            int rows);
    /// Gives the next one to the compute stream.
    void give();
    Event start() {
      give();
      return timed_.device_.compute().record();
    }

   private:
    const TimedOperations& timed_;
    const PanelLayout layout_;
    const int rows_;
    const std::size_t panels_;
    std::size_t next_ = 0;
    const Buffer weights_, x_, y_;
  };

  /// Seconds of one product.
  double product(const WeightFormat& format, int inputs, int outputs, int rows) const;
  /// Seconds in which kSequences of kKeys positions attend, the last `rows` of them new.
  double attention(const KvFormat& format, int heads, int rows) const;

  /// Seconds of an operation that the stream is given again and again: to give it and to wait for
  /// it are no part of it.
  double each(const std::function<void()>& give) const;
  /// The median of some runs after the first, which warms caches up.
  double median(const std::function<void()>& work) const;
  /// Longer than there is time for a median of: an emulated device, perhaps.
  bool is_slow(double seconds) const { return seconds > seconds_ / 80; }

 private:
  Buffer zeros(Buffer buffer) const;

  Device& device_;
  const DType compute_;
  const double seconds_;
  const std::unique_ptr<Kernels> kernels_;
};

/// A buffer of f32 as a matrix.
MatrixView f32_matrix(const Buffer& buffer, std::int64_t rows, std::int64_t cols);

}  // namespace barge
