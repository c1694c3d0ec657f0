#pragma once

#include <cstddef>
#include <vector>

#include "engine/null_kernels.h"
#include "model/family.h"
#include "model/forward.h"

namespace barge {

/// Gives a part no rows and watches what it asks for.
class ScratchMeter final : public Forward {
 public:
  /// What one part wants. Bytes are per row, each matrix's rows padded as the buffers pad them.
  struct Reading {
    std::size_t scratch_bytes = 0, wanted_bytes = 0;
    std::size_t projected_bytes = 0, attended_bytes = 0;
    std::vector<int> looked_up, multiplied;  // indices of tensors, as often as they are used
  };
  static Reading read(const Family& family, const Part& part, DType compute);

  Kernels& kernels() override { return kernels_; }
  std::int64_t rows() const override { return 0; }
  std::span<const std::int32_t> tokens() const override { return {}; }
  std::span<const std::int32_t> positions() const override { return {}; }
  DType compute_type() const override { return compute_; }
  MatrixView hidden() override { return empty(hidden_, DType::kF32); }
  MatrixView scratch(std::int64_t cols, DType dtype) override;
  const float* vector(int) override { return nullptr; }
  void lookup(int tensor, std::span<const std::int32_t>, Epilogue) override {
    reading_.looked_up.push_back(tensor);
  }
  void linear(MatrixView, int tensor, int, MatrixView, Epilogue) override {
    reading_.multiplied.push_back(tensor);
  }
  MatrixView projected(std::int64_t cols) override;
  void attend(int, MatrixView, MatrixView, MatrixView) override {}
  MatrixView attended() override;
  MatrixView wanted_hidden() override { return wanted_scratch(hidden_, DType::kF32); }
  MatrixView wanted_scratch(std::int64_t cols, DType dtype) override;
  MatrixView logits() override { return wanted_scratch(vocab_, DType::kF32); }

 private:
  ScratchMeter(const ModelConfig& config, DType compute)
      : hidden_(config.hidden),
        queries_(std::int64_t{config.heads} * config.head_dim),
        vocab_(config.vocab),
        compute_(compute) {}
  static MatrixView empty(std::int64_t cols, DType dtype) {
    return {.data = nullptr, .dtype = dtype, .rows = 0, .cols = cols, .stride = cols};
  }

  const std::int64_t hidden_, queries_, vocab_;
  const DType compute_;
  NullKernels kernels_;
  Reading reading_;
};

}  // namespace barge
