#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "kernels/backend.h"

namespace barge {

/// Passes everything on to another backend, and calls a test on the way. Hooks run on the thread
/// that gives the work, and must be set before kernels are made.
class ForwardingBackend final : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> to) : to_(std::move(to)) {}

  std::function<void()> before_attend = [] {}, after_linear = [] {};
  std::function<void(MatrixView logits)> before_draw = [](MatrixView) {};

  Device& device() override { return to_->device(); }
  DType preferred_compute_type() const override { return to_->preferred_compute_type(); }
  std::unique_ptr<Kernels> make_kernels(const KernelLimits& limits) override {
    return std::make_unique<Table>(*this, to_->make_kernels(limits));
  }
  PerTier<std::size_t> workspace_bytes(const KernelLimits& limits) override {
    return to_->workspace_bytes(limits);
  }

 private:
  class Table final : public Kernels {
   public:
    Table(ForwardingBackend& hooks, std::unique_ptr<Kernels> to)
        : hooks_(hooks), to_(std::move(to)) {}

    void decode_rows(const WeightPanel& rows, MatrixView out, Epilogue epilogue) override {
      to_->decode_rows(rows, out, epilogue);
    }
    void rms_norm(MatrixView x, const float* weight, float eps, MatrixView y) override {
      to_->rms_norm(x, weight, eps, y);
    }
    void layer_norm(MatrixView x, const float* weight, const float* bias, float eps,
                    MatrixView y) override {
      to_->layer_norm(x, weight, bias, eps, y);
    }
    void linear(MatrixView x, std::span<const WeightPanel> panels, const float* bias, MatrixView y,
                Epilogue epilogue) override {
      to_->linear(x, panels, bias, y, epilogue);
      hooks_.after_linear();
    }
    void rope(MatrixView x, int head_dim, std::span<const std::int32_t> positions,
              std::span<const float> frequencies) override {
      to_->rope(x, head_dim, positions, frequencies);
    }
    void activate(Activation activation, MatrixView gate, MatrixView up, MatrixView y) override {
      to_->activate(activation, gate, up, y);
    }
    void append_kv(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
                   MatrixView k, MatrixView v) override {
      to_->append_kv(format, page_positions, spans, k, v);
    }
    void attend(const KvFormat& format, int page_positions, std::span<const AttentionSpan> spans,
                int heads, float scale, MatrixView q, MatrixView out) override {
      hooks_.before_attend();
      to_->attend(format, page_positions, spans, heads, scale, q, out);
    }
    void gather_rows(MatrixView x, std::span<const std::int32_t> rows, MatrixView y) override {
      to_->gather_rows(x, rows, y);
    }
    void draw(MatrixView logits, std::span<const DrawParams> params, std::int32_t* ids) override {
      hooks_.before_draw(logits);
      to_->draw(logits, params, ids);
    }

   private:
    ForwardingBackend& hooks_;
    const std::unique_ptr<Kernels> to_;
  };

  const std::unique_ptr<Backend> to_;
};

}  // namespace barge
