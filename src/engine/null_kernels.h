#pragma once

#include "kernels/kernels.h"

namespace barge {

/// Operations that do nothing: for measuring what a family asks for, and for an output part of
/// which no row is wanted.
class NullKernels final : public Kernels {
 public:
  void decode_rows(const WeightPanel&, MatrixView, Epilogue) override {}
  void rms_norm(MatrixView, const float*, float, MatrixView) override {}
  void layer_norm(MatrixView, const float*, const float*, float, MatrixView) override {}
  void linear(MatrixView, std::span<const WeightPanel>, const float*, MatrixView,
              Epilogue) override {}
  void rope(MatrixView, int, std::span<const std::int32_t>, std::span<const float>) override {}
  void activate(Activation, MatrixView, MatrixView, MatrixView) override {}
  void append_kv(const KvFormat&, int, std::span<const AttentionSpan>, MatrixView,
                 MatrixView) override {}
  void attend(const KvFormat&, int, std::span<const AttentionSpan>, int, float, MatrixView,
              MatrixView) override {}
  void gather_rows(MatrixView, std::span<const std::int32_t>, MatrixView) override {}
  void draw(MatrixView, std::span<const DrawParams>, std::int32_t*) override {}
};

}  // namespace barge
