#pragma once

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "core/bytes.h"
#include "core/cpu_device.h"
#include "kernels/kernels.h"
#include "quant/codec.h"

namespace barge {

inline std::vector<float> random_numbers(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = normal(random);
  return numbers;
}

/// Numbers in memory of their own, rows `stride` apart; what lies between rows is watched.
class Matrix {
 public:
  Matrix(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0)
      : bytes_(static_cast<std::size_t>(rows * (cols + padding)) * size_of(dtype), kFill),
        view_{bytes_.data(), dtype, rows, cols, cols + padding} {}
  Matrix(const std::vector<float>& values, DType dtype, std::int64_t rows, std::int64_t cols,
         std::int64_t padding = 0)
      : Matrix(dtype, rows, cols, padding) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) set(r, c, values[r * cols + c]);
  }
  Matrix(const Matrix&) = delete;

  MatrixView view() { return {bytes_.data(), view_.dtype, view_.rows, view_.cols, view_.stride}; }
  float at(std::int64_t r, std::int64_t c) const {
    return view_.dtype == DType::kF32   ? view_.row_as<float>(r)[c]
           : view_.dtype == DType::kF16 ? to_f32(view_.row_as<F16>(r)[c])
                                        : to_f32(view_.row_as<BF16>(r)[c]);
  }
  void set(std::int64_t r, std::int64_t c, float x) {
    if (view_.dtype == DType::kF32)
      view_.row_as<float>(r)[c] = x;
    else if (view_.dtype == DType::kF16)
      view_.row_as<F16>(r)[c] = to_f16(x);
    else
      view_.row_as<BF16>(r)[c] = to_bf16(x);
  }
  /// Rows [first, first + count) as bits, to be compared.
  std::vector<std::byte> bits(std::int64_t first, std::int64_t count) const {
    const std::size_t row_bytes = static_cast<std::size_t>(view_.cols) * size_of(view_.dtype);
    std::vector<std::byte> all(static_cast<std::size_t>(count) * row_bytes);
    for (std::int64_t r = 0; r < count; ++r)
      std::memcpy(all.data() + static_cast<std::size_t>(r) * row_bytes, view_.row(first + r),
                  row_bytes);
    return all;
  }
  bool padding_is_untouched() const {
    for (std::int64_t r = 0; r < view_.rows; ++r)
      for (const std::byte* at = view_.row(r) + view_.cols * size_of(view_.dtype);
           at < view_.row(r + 1); ++at)
        if (*at != kFill) return false;
    return true;
  }

 private:
  static constexpr std::byte kFill{0x5a};
  std::vector<std::byte> bytes_;
  MatrixView view_;
};

/// A weight matrix, cut into panels of `panel_rows` rows.
class Weights {
 public:
  Weights(const WeightFormat& format, std::int64_t rows, std::int64_t cols, std::int64_t panel_rows,
          std::uint32_t seed = 3)
      : values(random_numbers(rows * cols, seed)) {
    for (std::int64_t first = 0; first < rows; first += panel_rows) {
      const auto layout = panel_layout(format, std::min(panel_rows, rows - first), cols);
      stored_.emplace_back(layout.bytes);
      encode_panel(layout, std::span(values).subspan(first * cols, layout.rows * cols),
                   stored_.back());
      panels_.push_back({nullptr, layout});
    }
    for (std::size_t i = 0; i < panels_.size(); ++i) panels_[i].data = stored_[i].data();
  }

  std::span<const WeightPanel> panels() const { return panels_; }

  std::vector<float> values;  // before they were encoded

 private:
  std::vector<std::vector<std::byte>> stored_;
  std::vector<WeightPanel> panels_;
};

/// A device with a fast and a reference table.
class KernelsTest : public testing::Test {
 protected:
  static constexpr std::int64_t kMaxInputs = 700;

  void make(DType compute, int heads = 12, int head_dim = 128, int threads = 3,
            int activation_bits = 16) {
    fast_.reset();  // before the device whose stream it uses
    reference_.reset();
    device_ = std::make_unique<CpuDevice>(CpuDevice::Options{.threads = threads}, budgets_);
    const KernelLimits limits{compute, 512, kMaxInputs, heads, head_dim, activation_bits};
    fast_ = make_cpu_kernels(*device_, limits);
    reference_ = make_reference_kernels(*device_, limits);
  }
  void finish() { device_->compute().record().wait(); }

  Kernels& fast() { return *fast_; }
  Kernels& reference() { return *reference_; }
  CpuDevice& device() { return *device_; }

  Budgets budgets_{1_GiB, 1_GiB, 0};
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Kernels> fast_, reference_;
};

/// Half a unit in the last place, relative to the number.
inline float rounding_of(DType dtype) {
  return dtype == DType::kF32 ? 0x1p-24f : dtype == DType::kF16 ? 0x1p-11f : 0x1p-8f;
}

}  // namespace barge
